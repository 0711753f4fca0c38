package service

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// replace writes a file whole or not at all, also under a program that runs, and keeps what was there as PATH.before. back puts that back.
func replace(path string, mode fs.FileMode, from io.Reader) (back func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	before := path + ".before"
	if err := os.Remove(before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	switch err := os.Link(path, before); {
	case errors.Is(err, fs.ErrNotExist):
		back = func() error { return os.Remove(path) }
	case err != nil:
		return nil, errors.Join(fmt.Errorf("keep what was at %s: %w", path, err), os.Remove(f.Name()))
	default:
		back = func() error { return os.Rename(before, path) }
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	return back, nil
}

// remove removes files that may be missing.
func remove(paths ...string) (err error) {
	for _, p := range paths {
		if e := os.Remove(p); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
