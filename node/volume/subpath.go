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
)

// SubPath returns the path of sub inside the volume at base, and makes a directory of it where nothing is. No
// symlink that a container may have left leads out of the volume: that is an error. The answer holds no symlinks.
func SubPath(base, sub string) (path string, err error) {
	if filepath.IsAbs(sub) || hasDots(sub) {
		return "", fmt.Errorf("subpath %q: must be a relative path without \"..\"", sub)
	}
	info, err := os.Stat(base)
	if err != nil {
		return "", fmt.Errorf("subpath %q: %w", sub, err)
	}
	at, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("subpath %q: open the volume: %w", sub, err)
	}
	defer unix.Close(at)
	fd, err := walk(at, filepath.Clean(sub), info.Mode())
	if err != nil {
		return "", fmt.Errorf("subpath %q: %w", sub, err)
	}
	defer unix.Close(fd)
	path, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "", fmt.Errorf("subpath %q: %w", sub, err)
	}
	return path, nil
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
	if err := os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode&(fs.ModePerm|fs.ModeSetgid)); err != nil { // whatever the umask
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
