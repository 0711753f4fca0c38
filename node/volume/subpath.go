package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// Pin returns the path of sub inside the volume at base for the mount with the given index of a container, and makes a directory of
// it where nothing is. No symlink that a container may have left leads out of the volume: that is an error. Nobody can redirect that
// path: what sub means now is mounted there, until the pod's volumes are removed or Pin is called for the same mount again.
func (m *Mounter) Pin(uid types.UID, container string, index int, base, sub string) (path string, err error) {
	if err := checkUID(uid); err != nil {
		return "", err
	}
	fd, err := openSub(base, sub)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	path = filepath.Join(m.pinsDir(uid), container, strconv.Itoa(index))
	if err := pinTarget(fd, path); err != nil {
		return "", fmt.Errorf("subpath %q: make its place: %w", sub, err)
	}
	if err := unix.Mount(fdPath(fd), path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return "", fmt.Errorf("subpath %q: mount it: %w", sub, err)
	}
	return path, nil
}

// pinTarget makes an empty place of the same sort as fd.
func pinTarget(fd int, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	if err := removePin(path); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.Mkdir(path, 0o750)
	}
	return os.WriteFile(path, nil, 0o600)
}

// removePin takes away what an earlier Pin left.
func removePin(path string) error {
	for {
		here, err := mounted(path)
		if err != nil {
			return err
		}
		if !here {
			if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) { // it is empty: never more than this
				return err
			}
			return nil
		}
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return err
		}
	}
}

func mounted(path string) (bool, error) {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return mountPoint(path)
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// openSub opens sub inside the volume at base, which it can't leave.
func openSub(base, sub string) (fd int, err error) {
	if filepath.IsAbs(sub) || hasDots(sub) {
		return -1, fmt.Errorf("subpath %q: must be a relative path without \"..\"", sub)
	}
	info, err := os.Stat(base)
	if err != nil {
		return -1, fmt.Errorf("subpath %q: %w", sub, err)
	}
	at, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("subpath %q: open the volume: %w", sub, err)
	}
	defer unix.Close(at)
	if fd, err = walk(at, filepath.Clean(sub), info.Mode()); err != nil {
		return -1, fmt.Errorf("subpath %q: %w", sub, err)
	}
	return fd, nil
}

func hasDots(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// walk opens sub below the directory at, making what is missing with the given mode.
func walk(at int, sub string, mode fs.FileMode) (fd int, err error) {
	fd, err = beneath(at, sub)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	parent, name := at, filepath.Base(sub)
	if dir := filepath.Dir(sub); dir != "." {
		if parent, err = walk(at, dir, mode); err != nil {
			return -1, err
		}
		defer unix.Close(parent)
	}
	if err := unix.Mkdirat(parent, name, uint32(mode.Perm())); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("make the directory: %w", err)
	}
	fd, err = beneath(parent, name)
	if err != nil {
		return -1, err // such as a symlink to nowhere
	}
	if err := os.Chmod(fdPath(fd), mode&(fs.ModePerm|fs.ModeSetgid|fs.ModeSticky)); err != nil { // whatever the umask
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func beneath(at int, sub string) (int, error) {
	fd, err := unix.Openat2(at, sub, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
	switch {
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return -1, errors.New("leads out of the volume")
	case err != nil:
		return -1, err
	}
	return fd, nil
}
