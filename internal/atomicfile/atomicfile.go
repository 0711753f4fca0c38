// Package atomicfile replaces files as a whole: who reads one, also after a crash or a loss of power, finds what was there before or all
// that is new.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
)

// Write replaces the file, or makes it, with these permissions. What is new is on disk before it gets the name: on some file systems a
// loss of power would else leave an empty file. The directory must be there. One file must not be written by two at a time.
func Write(path string, data []byte, perm fs.FileMode) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}

// SyncDir makes the names in a directory durable: of files that were made, renamed or removed there. Windows, which does that by itself,
// has no such call.
func SyncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
