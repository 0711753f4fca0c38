package clusters

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// claim is the file in a data directory that the process which works there holds locked, with its number in it.
const claim = "kloop.pid"

// Claim notes that this process works in a data directory, until it ends or releases it. Another that does is no error: the store
// and the runtime have locks of their own, and say more.
func Claim(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	unlock, err := hold(filepath.Join(dir, claim), false)
	if errors.Is(err, errHeld) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, claim)
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return func() { _ = unlock() }, nil
}

// Claimed is the process that works in a data directory; 0: none.
func Claimed(dir string) int {
	path := filepath.Join(dir, claim)
	if !held(path) {
		return 0
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 2 {
		return 0
	}
	return pid
}

// endClaimed ends the process that works in a data directory.
func endClaimed(dir string) error {
	pid := Claimed(dir)
	if pid == 0 {
		return nil
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Kill} {
		if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop kloop, process %d: %w", pid, err)
		}
		for end := time.Now().Add(stopPatience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if Claimed(dir) == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("kloop, process %d, does not end", pid)
}
