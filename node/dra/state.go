package dra

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/kloop-dev/kloop/internal/atomicfile"
)

// state is the file in which the next agent finds what is prepared.
type state struct {
	Boot   string
	Claims []*claim
}

func (c *Claims) file() string { return filepath.Join(c.cfg.Dir, "dra_manager_state") }

// load reads the file. After a reboot nothing is prepared any more, but everything has to be taken back all the same.
func (c *Claims) load() {
	text, err := os.ReadFile(c.file())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var s state
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		err = errors.Join(err, os.Rename(c.file(), c.file()+".bad"))
		c.log.Warn("which claims are prepared can't be read and is forgotten: their drivers may keep devices for them", "err", err)
		return
	}
	for _, k := range s.Claims {
		if k == nil || k.UID == "" {
			continue
		}
		for name, p := range k.Drivers {
			if p == nil {
				p = &part{}
				k.Drivers[name] = p
			}
			p.Prepared = p.Prepared && s.Boot == c.cfg.Boot
		}
		c.of[k.UID] = k
	}
}

// save writes the file. c is locked.
func (c *Claims) save() error {
	s := state{Boot: c.cfg.Boot}
	for _, uid := range slices.Sorted(maps.Keys(c.of)) {
		s.Claims = append(s.Claims, c.of[uid])
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.cfg.Dir, 0o750); err != nil {
		return fmt.Errorf("keep which claims are prepared: %w", err)
	}
	if err := atomicfile.Write(c.file(), text, 0o600); err != nil {
		return fmt.Errorf("keep which claims are prepared: %w", err)
	}
	return nil
}
