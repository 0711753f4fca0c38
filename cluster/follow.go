package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// lookEvery is the interval between looks at files that may change while the cluster runs.
const lookEvery = 30 * time.Second

// A followed file is read again when it changed.
type followed struct {
	what  string
	paths []string
	last  [][]byte // what was read last, good or not
	use   func(data [][]byte) error
}

// load reads files that belong together and hands them on; use says what of them can't be meant.
func load(what string, use func(data [][]byte) error, paths ...string) (*followed, error) {
	f := &followed{what: what, paths: paths, use: use}
	data, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("read the %s: %w", what, err)
	}
	if err := use(data); err != nil {
		return nil, fmt.Errorf("the %s in %s: %w", what, strings.Join(paths, ", "), err)
	}
	f.last = data
	return f, nil
}

// follow will read a file again that was loaded, if there is one. A new content that can't be used is logged, and the former one stays.
func (c *Cluster) follow(f *followed, err error) error {
	if err == nil && f != nil {
		c.files = append(c.files, f)
	}
	return err
}

func (f *followed) read() (data [][]byte, err error) {
	for _, path := range f.paths {
		one, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		data = append(data, one)
	}
	return data, nil
}

// look reads the file again if it changed.
func (f *followed) look() (changed bool, err error) {
	data, err := f.read()
	if err != nil || slices.EqualFunc(data, f.last, bytes.Equal) {
		return false, err
	}
	f.last = data
	if err := f.use(data); err != nil {
		return false, fmt.Errorf("%s: %w", strings.Join(f.paths, ", "), err)
	}
	return true, nil
}

// keepFiles looks at all followed files until ctx ends.
func (c *Cluster) keepFiles(ctx context.Context, ready func()) error {
	ready()
	if len(c.files) == 0 {
		<-ctx.Done()
		return nil
	}
	every(ctx, lookEvery, func() {
		for _, f := range c.files {
			switch changed, err := f.look(); {
			case err != nil:
				c.cfg.Log.Error("a file changed and can't be used: what was before stays", "file", f.what, "err", err)
			case changed:
				c.cfg.Log.Info("a file changed and is used", "file", f.what, "path", strings.Join(f.paths, ", "))
			}
		}
	})
	return nil
}
