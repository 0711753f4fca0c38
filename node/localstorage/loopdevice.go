package localstorage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tries bounds how often a free loop device is asked for: others may be faster.
const tries = 16

// attach returns the loop device of a file, and makes one if it has none.
func attach(file string) (device string, err error) {
	if device = attached(file); device != "" {
		return device, nil
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("this machine has no loop devices: %w", err)
	}
	defer control.Close()
	back, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer back.Close()
	for range tries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", fmt.Errorf("find a free loop device: %w", err)
		}
		device = "/dev/loop" + strconv.Itoa(n)
		switch err := configure(device, n, back, file); {
		case err == nil:
			return device, nil
		case !errors.Is(err, unix.EBUSY):
			return "", fmt.Errorf("attach %s to %s: %w", file, device, err)
		}
	}
	return "", errors.New("no loop device is free for long enough")
}

func configure(device string, n int, back *os.File, file string) error {
	if _, err := os.Stat(device); errors.Is(err, os.ErrNotExist) { // a container's /dev does not get it by itself
		if err := unix.Mknod(device, unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(n)))); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	c := unix.LoopConfig{Fd: uint32(back.Fd())}
	copy(c.Info.File_name[:len(c.Info.File_name)-1], file)
	c.Info.Flags = unix.LO_FLAGS_DIRECT_IO // else each block is kept in memory twice
	err = unix.IoctlLoopConfigure(int(f.Fd()), &c)
	if errors.Is(err, unix.EINVAL) {
		c.Info.Flags = 0
		err = unix.IoctlLoopConfigure(int(f.Fd()), &c)
	}
	return err
}

// attached returns the loop device of a file; "": it has none.
func attached(file string) string {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return ""
	}
	list, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, path := range list {
		text, err := os.ReadFile(path)
		if err == nil && strings.TrimSuffix(string(text), "\n") == file {
			return "/dev/" + strings.Split(path, "/")[3]
		}
	}
	return ""
}

// detach takes the file off its loop device. One that is in use stays.
func detach(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("detach %s: %w", device, err)
	}
	return nil
}

// resize lets a device have the size that its file has now.
func resize(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("enlarge %s: %w", device, err)
	}
	return nil
}
