package localstorage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/internal/atomicfile"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/node/volume"
)

// A snapshot is a copy of an image, beside them. On file systems that share blocks between files (XFS, Btrfs) it takes no time and no
// room; on others only what was written is copied.
//
//	DIR/.snapshots/SNAPSHOT.ext4
const snapshots = ".snapshots"

// snapshotOf stands before the names of snapshots among those of volumes, none of which begins so.
const snapshotOf = "snapshot/"

// The kernel's requests to hold writes to a file system, and to let them go on (linux/fs.h).
const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

func (d *disk) snapshot(file string) string { return filepath.Join(d.dir, snapshots, file) }

// doSnapshot does what an order about a snapshot wants, or finds it done.
func (a *agent) doSnapshot(ctx context.Context, name string, o *localvolume.Order) error {
	if !localvolume.Belongs(o.Dir, name) || !localvolume.Image(o.Form) {
		return fmt.Errorf("%q is not a file of this snapshot", o.Dir)
	}
	file := a.disk.snapshot(o.Dir + "." + o.Form)
	switch o.Do {
	case localvolume.Copy:
		if err := a.disk.copyImage(ctx, *o, file); err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("look at the snapshot: %w", err)
		}
		o.At, o.Bytes = info.ModTime().UnixNano(), info.Size()
		return nil
	case localvolume.Remove:
		aside := filepath.Join(a.disk.dir, trash+o.Dir+"-"+strconv.FormatInt(time.Now().UnixNano(), 36))
		if err := os.Rename(file, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the snapshot: %w", err)
		}
		a.sweep()
		return nil
	}
	return fmt.Errorf("this agent knows no order %q for snapshots: it is older than the server", o.Do)
}

// copyImage makes a snapshot of a volume. The file has its name only when it is whole.
func (d *disk) copyImage(ctx context.Context, o localvolume.Order, file string) error {
	switch _, err := os.Lstat(file); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case o.From == "":
		return errors.New("there is no such snapshot on this node")
	case filepath.Base(o.From) != o.From || strings.HasPrefix(o.From, "."):
		return fmt.Errorf("%q is not a volume", o.From)
	}
	from := d.image(o.From, o.Form)
	if err := d.roomToCopy(from); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("make the directory of snapshots: %w", err)
	}
	unready := filepath.Join(d.dir, begun+"snapshot-"+o.Dir)
	resume, err := d.hold(o)
	if err != nil {
		return fmt.Errorf("hold the volume still: %w", err)
	}
	now := time.Now()
	err = copyFile(ctx, from, unready, o.Form != localvolume.Block)
	err = errors.Join(err, resume())
	if err == nil {
		err = os.Chtimes(unready, now, now)
	}
	if err == nil {
		err = errors.Join(os.Rename(unready, file), atomicfile.SyncDir(filepath.Dir(file)), atomicfile.SyncDir(d.dir))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("copy the volume: %w", err), os.RemoveAll(unready))
	}
	return nil
}

// roomToCopy says why there is no room for a copy: one that shares its blocks may need none, which nobody knows before.
func (d *disk) roomToCopy(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("look at the volume: %w", err)
	}
	if shares(d.dir) {
		return nil
	}
	return d.roomFor(st.Blocks * 512)
}

// shares says that the file system at dir lets files share blocks.
func shares(dir string) bool {
	var st unix.Statfs_t
	const xfs, btrfs = 0x58465342, 0x9123683E
	return unix.Statfs(dir, &st) == nil && (uint32(st.Type) == xfs || uint32(st.Type) == btrfs)
}

// hold keeps a file system as it is, with everything that was written in the image, until resume is called.
func (d *disk) hold(o localvolume.Order) (resume func() error, err error) {
	path := filepath.Join(d.dir, o.From)
	if o.Form == localvolume.Block {
		return func() error { return nil }, flush(path)
	}
	here, _, err := volume.Mounted(path)
	if err != nil || !here {
		return func() error { return nil }, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetInt(int(f.Fd()), fiFreeze, 0); err != nil && !errors.Is(err, syscall.EBUSY) { // it is held already
		return nil, errors.Join(err, f.Close())
	}
	return func() error { return errors.Join(release(f), f.Close()) }, nil
}

// thaw lets writes go on in a file system that is held. One that is not is left as it is.
func thaw(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return release(f)
}

func release(f *os.File) error {
	err := unix.IoctlSetInt(int(f.Fd()), fiThaw, 0)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM) {
		return nil
	}
	return err
}

// flush writes what the kernel keeps of a block device into its image.
func flush(device string) error {
	f, err := os.Open(device)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// restore copies a snapshot into what becomes a volume.
func (d *disk) restore(ctx context.Context, o localvolume.Order, unready string) error {
	if filepath.Base(o.From) != o.From || strings.HasPrefix(o.From, ".") {
		return fmt.Errorf("%q is not a snapshot", o.From)
	}
	from := d.snapshot(o.From)
	info, err := os.Stat(from)
	if err != nil {
		return fmt.Errorf("look at the snapshot: %w", err)
	}
	if info.Size() > o.Size {
		return fmt.Errorf("the snapshot has %d bytes, more than the %d of the volume", info.Size(), o.Size)
	}
	return copyFile(ctx, from, unready, true)
}

// copyFile copies an image: by sharing its blocks, or else, where it may take time, what was written in it.
func copyFile(ctx context.Context, from, to string, slow bool) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil {
		return out.Sync()
	}
	if !slow {
		return errors.New("a block volume can be copied at one moment only on a disk whose file system shares blocks (XFS, Btrfs)")
	}
	info, err := in.Stat()
	if err == nil {
		err = out.Truncate(info.Size())
	}
	if err == nil {
		err = copyWritten(ctx, in, out, info.Size())
	}
	if err != nil {
		return err
	}
	return out.Sync()
}

// copyWritten copies what is no hole.
func copyWritten(ctx context.Context, in, out *os.File, size int64) error {
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		begin, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // nothing but a hole is left
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(in.Fd()), begin, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		const chunk = 64 << 20 // between two looks at ctx
		end = min(end, begin+chunk)
		if _, err := io.Copy(io.NewOffsetWriter(out, begin), io.NewSectionReader(in, begin, end-begin)); err != nil {
			return err
		}
		at = end
	}
	return nil
}
