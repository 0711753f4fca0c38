package torture

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const mountsOwned = "KLOOP_TORTURE_MOUNTS" // set in the environment of a test binary that has a mount namespace of its own

// ownMounts begins the test binary anew in a mount namespace of its own. A process that copies its mount namespace copies each disk that
// is mounted there, and keeps it: a disk whose power was cut would be cut off still when it is mounted again. Who may not, goes on as
// before.
func ownMounts() error {
	if os.Getenv(mountsOwned) != "" {
		return nil
	}
	runtime.LockOSThread() // the namespace is this thread's, which is the one that goes on
	if err := unix.Unshare(unix.CLONE_NEWNS); errors.Is(err, unix.EPERM) {
		runtime.UnlockOSThread()
		return nil
	} else if err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), mountsOwned+"=1"))
}

// Nobody else sees a disk, so nobody else can keep it.
func TestDisksAreOurs(t *testing.T) {
	d := newDisk(t, "data=ordered")
	for pid, want := range map[int]bool{os.Getpid(): true, os.Getppid(): false} {
		mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(mounts, []byte(d.dir+" ")); got != want {
			t.Errorf("the disk is among the mounts of process %d: %v", pid, got)
		}
	}
}
