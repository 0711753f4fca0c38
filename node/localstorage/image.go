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
	"github.com/kloop-dev/kloop/node/tool"
	"github.com/kloop-dev/kloop/node/volume"
)

// An image is a file of the size that a claim asked for. It is shown through a loop device: its file system is mounted on the volume's
// directory, or the device stands there as a link. The file's name says which; nothing else is remembered.
//
//	DIR/.images/VOLUME.ext4   mounted on DIR/VOLUME
//	DIR/.images/VOLUME.block  DIR/VOLUME → /dev/loopN
const images = ".images"

func (d *disk) image(dir, form string) string { return filepath.Join(d.dir, images, dir+"."+form) }

// makeImage makes the file with its file system, and shows it. The file has its name only when it is whole; what was only begun is not
// left on the disk, which it may have filled.
func (d *disk) makeImage(ctx context.Context, o localvolume.Order) error {
	file := d.image(o.Dir, o.Form)
	if _, err := os.Lstat(file); err == nil {
		return d.unfold(ctx, o)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("make the directory of images: %w", err)
	}
	unready := filepath.Join(d.dir, begun+o.Dir)
	if err := os.RemoveAll(unready); err != nil {
		return fmt.Errorf("make the image: %w", err)
	}
	if err := d.roomFor(o.Size); err != nil {
		return err
	}
	err := d.fillImage(ctx, o, unready)
	if err == nil {
		err = os.Rename(unready, file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make the image: %w", err), os.RemoveAll(unready))
	}
	if err := errors.Join(atomicfile.SyncDir(filepath.Dir(file)), atomicfile.SyncDir(d.dir)); err != nil {
		return fmt.Errorf("make the image: %w", err)
	}
	return d.unfold(ctx, o)
}

// fillImage makes what becomes an image: a copy of a snapshot, or an empty file system.
func (d *disk) fillImage(ctx context.Context, o localvolume.Order, unready string) error {
	if o.From != "" {
		if err := d.restore(ctx, o, unready); err != nil {
			return err
		}
	}
	if err := allocate(unready, o.Size); err != nil {
		return err
	}
	if o.From == "" {
		return format(ctx, unready, o.Form)
	}
	return nil
}

// unfold shows an image. What was copied from a smaller snapshot gets its size.
func (d *disk) unfold(ctx context.Context, o localvolume.Order) error {
	if o.From != "" {
		if info, err := os.Stat(d.snapshot(o.From)); err != nil || info.Size() < o.Size {
			return d.growImage(ctx, o)
		}
	}
	return d.show(o.Dir, o.Form)
}

// allocate makes a file at least that large. Its room is taken from the disk now, where the disk's file system can do that: what was
// promised can be written. A disk that becomes full by it gets back what the file did not have before.
func allocate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() >= size {
		return err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = f.Truncate(size)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make %s as large as %d bytes: %w", path, size, err), f.Truncate(info.Size()))
	}
	return f.Sync()
}

// format makes a file system in the image, unless it is to be a block device.
func format(ctx context.Context, path, form string) error {
	switch form {
	case localvolume.Block:
		return nil
	case localvolume.Ext4:
		return tool.Do(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,root_owner=0:0", path)
	case localvolume.XFS:
		return tool.Do(ctx, "mkfs.xfs", "-q", "-f", "-K", path)
	}
	return fmt.Errorf("this agent makes no images of the form %q", form)
}

// showAll shows all images: after a start of the machine none is.
func (d *disk) showAll() error {
	list, err := os.ReadDir(filepath.Join(d.dir, images))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range list {
		form := strings.TrimPrefix(filepath.Ext(e.Name()), ".")
		if localvolume.Image(form) {
			errs = append(errs, d.show(strings.TrimSuffix(e.Name(), "."+form), form))
		}
	}
	return errors.Join(errs...)
}

// show mounts an image, or makes the link to its device, unless that is done.
func (d *disk) show(dir, form string) error {
	file, path := d.image(dir, form), filepath.Join(d.dir, dir)
	if form == localvolume.Block {
		device, err := attach(file)
		if err != nil {
			return err
		}
		return link(device, path)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make the volume's directory: %w", err)
	}
	if here, _, err := volume.Mounted(path); err != nil || here {
		if here {
			err = thaw(path) // an agent before this one may have died over a copy
		}
		return err
	}
	device, err := attach(file)
	if err != nil {
		return err
	}
	options := ""
	if form == localvolume.XFS {
		options = "nouuid" // a volume made of a snapshot has the name of the first
	}
	if err := unix.Mount(device, path, form, 0, options); err != nil {
		return errors.Join(fmt.Errorf("mount %s: %w", file, err), detach(device))
	}
	_ = os.Remove(filepath.Join(path, "lost+found")) // databases want an empty directory; e2fsck makes it anew
	return openToAll(path)
}

// openToAll lets any user of the pod's containers use a volume that nobody has taken over yet.
func openToAll(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o755 { // mkfs's
		return err
	}
	return os.Chmod(path, 0o777)
}

// link makes the volume's name stand for the device.
func link(device, path string) error {
	if have, err := os.Readlink(path); err == nil && have == device {
		return nil
	}
	aside := filepath.Join(filepath.Dir(path), begun+filepath.Base(path))
	err := os.RemoveAll(aside)
	if err == nil {
		err = os.Symlink(device, aside)
	}
	if err == nil {
		err = os.Rename(aside, path)
	}
	if err != nil {
		return fmt.Errorf("name the volume's device: %w", err)
	}
	return nil
}

// growImage enlarges an image and what is in it, while it is used.
func (d *disk) growImage(ctx context.Context, o localvolume.Order) error {
	file := d.image(o.Dir, o.Form)
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("enlarge the volume: %w", err)
	}
	if more := o.Size - info.Size(); more > 0 {
		if err := d.roomFor(more); err != nil {
			return err
		}
		if err := allocate(file, o.Size); err != nil {
			return fmt.Errorf("enlarge the volume: %w", err)
		}
	}
	if err := d.show(o.Dir, o.Form); err != nil {
		return err
	}
	device := attached(file)
	if device == "" {
		return fmt.Errorf("enlarge the volume: %s has no device", file)
	}
	if err := resize(device); err != nil {
		return err
	}
	switch o.Form {
	case localvolume.Ext4:
		return tool.Do(ctx, "resize2fs", device)
	case localvolume.XFS:
		return tool.Do(ctx, "xfs_growfs", filepath.Join(d.dir, o.Dir))
	}
	return nil
}

// removeImage takes an image away: first what shows it, then its name.
func (d *disk) removeImage(o localvolume.Order) error {
	file, path := d.image(o.Dir, o.Form), filepath.Join(d.dir, o.Dir)
	if err := d.hide(o, file, path); err != nil {
		return fmt.Errorf("remove the volume: %w", err)
	}
	aside := filepath.Join(d.dir, trash+o.Dir+"-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	if err := os.Rename(file, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the volume: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the volume: %w", err)
	}
	return atomicfile.SyncDir(d.dir)
}

// hide takes the image out of use. It fails while a pod still uses it.
func (d *disk) hide(o localvolume.Order, file, path string) error {
	if o.Form != localvolume.Block {
		here, below, err := false, []string(nil), error(nil)
		if _, lerr := os.Lstat(path); lerr == nil {
			here, below, err = volume.Mounted(path)
		}
		switch {
		case err != nil:
			return err
		case len(below) > 0:
			return fmt.Errorf("something is mounted in %s", path)
		case here:
			if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
				return fmt.Errorf("unmount %s: %w", path, err)
			}
		}
	}
	if device := attached(file); device != "" {
		return detach(device)
	}
	return nil
}
