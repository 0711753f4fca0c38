package clusters

import (
	"errors"
	"fmt"
	"os"
)

// errHeld says that another process has the lock.
var errHeld = errors.New("another process holds the lock")

// hold takes the lock of a file for this process, until it ends or unlocks. It waits for the lock if it may.
func hold(path string, wait bool) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := flock(f, exclusive, wait); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f.Close, nil
}

// held says whether a process has the lock.
func held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(flock(f, shared, false), errHeld)
}
