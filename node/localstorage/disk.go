package localstorage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/internal/atomicfile"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/node/volume"
)

// The beginnings of names of what is not a volume yet, and of what was one. No volume's name begins so.
const (
	begun = ".new-"
	trash = ".trash-"
)

// A disk is the directory that volumes lie in. Its methods are for one goroutine, but for empty.
type disk struct{ dir string }

// openDisk makes the directory. Nobody but root gets into it: containers are shown what is theirs.
func openDisk(dir string) (*disk, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("%s is not an absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make the directory of volumes: %w", err)
	}
	return &disk{dir}, nil
}

// free returns the bytes that there is room for.
func (d *disk) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		return 0, fmt.Errorf("look at the room in %s: %w", d.dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// make makes a volume that any user of its pods' containers may use. One that is there stays as it is.
func (d *disk) make(ctx context.Context, o localvolume.Order) error {
	switch {
	case localvolume.Image(o.Form):
		return d.makeImage(ctx, o)
	case o.Form != localvolume.Directory:
		return fmt.Errorf("this agent makes no volumes of the form %q", o.Form)
	}
	path := filepath.Join(d.dir, o.Dir)
	if info, err := os.Lstat(path); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is in the way", path)
		}
		return nil
	}
	if err := d.roomFor(o.Size); err != nil {
		return err
	}
	unready := filepath.Join(d.dir, begun+o.Dir)
	err := errors.Join(os.RemoveAll(unready), os.Mkdir(unready, 0o777), os.Chmod(unready, 0o777)) // whatever the umask
	if err == nil {
		err = os.Rename(unready, path)
	}
	if err != nil {
		return fmt.Errorf("make the volume: %w", err)
	}
	return atomicfile.SyncDir(d.dir)
}

// roomFor says why there is no room.
func (d *disk) roomFor(size int64) error {
	free, err := d.free()
	if err == nil && free < size {
		err = fmt.Errorf("not enough room in %s: %d MiB are free, %d MiB are asked for", d.dir, free>>20, size>>20)
	}
	return err
}

// remove takes a volume away: under its name there is none any more, now and after a crash.
func (d *disk) remove(o localvolume.Order) error {
	path := filepath.Join(d.dir, o.Dir)
	if err := os.RemoveAll(filepath.Join(d.dir, begun+o.Dir)); err != nil {
		return fmt.Errorf("remove what was begun of the volume: %w", err)
	}
	if localvolume.Image(o.Form) {
		return d.removeImage(o)
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := unused(path); err != nil {
		return err
	}
	aside := filepath.Join(d.dir, trash+o.Dir+"-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	if err := os.Rename(path, aside); err != nil {
		return fmt.Errorf("remove the volume: %w", err)
	}
	return atomicfile.SyncDir(d.dir)
}

// unused says why a directory can't be removed: there is something mounted.
func unused(path string) error {
	here, below, err := volume.Mounted(path)
	switch {
	case err != nil:
		return fmt.Errorf("look for mounts in the volume: %w", err)
	case here || len(below) > 0:
		return fmt.Errorf("something is mounted in %s", path)
	}
	return nil
}

// empty deletes what was removed. What was mounted there meanwhile is left alone.
func (d *disk) empty(ctx context.Context) error {
	list, err := os.ReadDir(d.dir)
	if err != nil {
		return fmt.Errorf("look for removed volumes: %w", err)
	}
	var errs []error
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), trash) || ctx.Err() != nil {
			continue
		}
		path := filepath.Join(d.dir, e.Name())
		if e.IsDir() {
			if err := unused(path); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}
