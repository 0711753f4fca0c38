package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// tmpfs mounts a file system in memory on the path, unless there is one. It is not swapped out, if the kernel knows how (6.4).
func tmpfs(path, options string) error {
	err := memory("tmpfs", unix.TMPFS_MAGIC, path, options+",noswap")
	if errors.Is(err, unix.EINVAL) {
		return memory("tmpfs", unix.TMPFS_MAGIC, path, options)
	}
	return err
}

// memory mounts a file system of a sort that lies in memory, by its magic number, on the path, unless there is one.
func memory(sort string, magic uint32, path, options string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if uint32(st.Type) == magic {
		here, err := mountPoint(path)
		if err != nil || here {
			return err
		}
	}
	if err := unix.Mount(sort, path, sort, 0, options); err != nil {
		return fmt.Errorf("mount a %s on %s: %w", sort, path, err)
	}
	return nil
}

// mountPoint says whether something is mounted on the path. Kernels from 5.8 on tell of one path; with hundreds of pods the list of all
// mounts is long.
func mountPoint(path string) (bool, error) {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, 0, &st) == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	path, err := filepath.EvalSymlinks(path) // as the kernel names it
	if err != nil {
		return false, err
	}
	points, err := mountPoints()
	return slices.Contains(points, path), err
}

// mountPoints lists where file systems are mounted, in the order of mounting.
func mountPoints() (list []string, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 {
			list = append(list, unescape(f[4]))
		}
	}
	return list, nil
}

// Mounted says whether something is mounted on the path, and where anything is mounted below it.
func Mounted(path string) (here bool, below []string, err error) {
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return false, nil, err
	}
	points, err := mountPoints()
	for _, p := range points {
		if strings.HasPrefix(p, path+"/") {
			below = append(below, p)
		}
	}
	return slices.Contains(points, path), below, err
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s // nearly all: a table of mounts is read for each volume
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// unmountBelow unmounts everything mounted below the directory. What is still in use there is detached: it goes
// when its last user does, and can't be reached, let alone deleted, by its path any more.
func unmountBelow(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	points, err := mountPoints()
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(points) {
		if !strings.HasPrefix(p, dir+"/") {
			continue
		}
		unmount := func(p string) error { return unix.Unmount(p, unix.UMOUNT_NOFOLLOW) }
		if strings.Contains(p, "/"+nfsPlugin+"/") {
			unmount = unmountNFS
		}
		err := unmount(p)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount %s: %w", p, err)
		}
	}
	points, err = mountPoints()
	if i := slices.IndexFunc(points, func(p string) bool { return strings.HasPrefix(p, dir+"/") }); i >= 0 {
		return fmt.Errorf("%s is still mounted", points[i])
	}
	return err
}

// owner is the group and user of a file.
func owner(info fs.FileInfo) (gid, uid int) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Gid), int(st.Uid)
	}
	return -1, -1
}
