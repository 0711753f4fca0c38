// Package segments keeps a log in files that are bounded together: new ones are named by the time at which they begin, and the oldest
// go when there is no room for another one. What stands in the files, and when one is full, is for the owner, who locks.
package segments

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Parts is into how many files a log is cut.
const Parts = 8

// maxFiles bounds their number: restarts make small ones.
const maxFiles = 64 * Parts

// A Dir is a directory of such files.
type Dir struct {
	Path   string
	Suffix string // of the files' names, with its dot
	Most   int64  // bytes of all files together
}

// Share bounds one file, in bytes.
func (d Dir) Share() int64 { return d.Most / Parts }

// List returns the paths of the files, oldest first.
func (d Dir) List() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(d.Path, "*"+d.Suffix))
	slices.Sort(names)
	return names, err
}

// Begin drops the oldest files until there is room for another one, and makes that. The directory is made if need be.
func (d Dir) Begin() (*os.File, error) {
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of a log: %w", err)
	}
	names, err := d.List()
	if err != nil {
		return nil, err
	}
	if err := d.drop(names); err != nil {
		return nil, err
	}
	path := filepath.Join(d.Path, time.Now().UTC().Format("20060102T150405.000000000")+d.Suffix)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin a part of a log: %w", err)
	}
	return f, nil
}

// drop removes the oldest of the files until there is room for another one. One that can't be removed stays, and the next ones go in
// its place.
func (d Dir) drop(names []string) error {
	var total int64
	sizes := make([]int64, len(names))
	for i, name := range names {
		if info, err := os.Stat(name); err == nil {
			sizes[i] = info.Size()
			total += sizes[i]
		}
	}
	left, stuck := len(names), error(nil)
	full := func() bool { return total > d.Most-d.Share() || left > maxFiles }
	for i := 0; i < len(names) && full(); i++ {
		if err := os.Remove(names[i]); err != nil && !errors.Is(err, os.ErrNotExist) {
			stuck = cmp.Or(stuck, err)
			continue
		}
		total -= sizes[i]
		left--
	}
	if stuck != nil && full() {
		return fmt.Errorf("drop the oldest part of a log: %w", stuck)
	}
	return nil
}
