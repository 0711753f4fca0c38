package clusters

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// The kinds of locks: one process has it exclusive, or any number shared.
const (
	exclusive = windows.LOCKFILE_EXCLUSIVE_LOCK
	shared    = 0
)

// lockedByte is far behind what a file holds: unlike elsewhere, nobody else could read or write what is locked.
const lockedByte = 1 << 30

// flock locks an open file. Without waiting it fails with errHeld if another process is in the way.
func flock(f *os.File, how uint32, wait bool) error {
	if !wait {
		how |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{Offset: lockedByte})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errHeld
	}
	return err
}
