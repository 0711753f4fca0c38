package rootdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// share makes what is mounted below the directory reach every container that has it mounted, and the other way round. Where the file
// system that it lies on is shared, as systemd has it, nothing is to be done; elsewhere the directory is mounted on itself.
func share(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	shared, below := read(string(text), dir)
	if shared {
		return nil
	}
	before, err := os.OpenFile(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer before.Close()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	// What pods have mounted there is now there twice. The older ones, beneath, would never go.
	for _, path := range slices.Backward(below) {
		hidden := fmt.Sprintf("/proc/self/fd/%d/%s", before.Fd(), strings.TrimPrefix(path, dir+"/"))
		if err := unix.Unmount(hidden, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount what lies beneath %s: %w", path, err)
		}
	}
	return unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, "")
}

// unshare takes back what share did to a directory that no agent works in any more. While something is mounted below it, which can't be
// moved, the error is as of another file system.
func unshare(dir string) error {
	var here, above unix.Stat_t
	if err := errors.Join(unix.Stat(dir, &here), unix.Stat(filepath.Dir(dir), &above)); err != nil {
		return err
	}
	if here.Dev != above.Dev {
		return nil // a file system of its own, which somebody else has mounted
	}
	err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
	switch {
	case errors.Is(err, unix.EBUSY):
		return unix.EXDEV
	case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM): // it is no mount, or this is no root
		return nil
	}
	return err
}

// read finds in a table of mounts whether that on which dir lies is shared, and what is mounted below dir, in the order of mounting.
func read(table, dir string) (shared bool, below []string) {
	on := ""
	for line := range strings.Lines(table) {
		f := strings.Fields(line) // id, parent, device, root, mount point, options, optional fields, "-", …
		if len(f) < 7 {
			continue
		}
		at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(f[4])
		switch {
		case strings.HasPrefix(at, dir+"/"):
			below = append(below, at)
		case at == "/" || at == dir || strings.HasPrefix(dir, at+"/"):
			if len(at) >= len(on) { // the last one mounted there lies on top
				on, shared = at, slices.ContainsFunc(f[6:max(6, slices.Index(f, "-"))], func(o string) bool {
					return strings.HasPrefix(o, "shared:")
				})
			}
		}
	}
	return shared, below
}
