//go:build unix

package clusters

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// The kinds of locks: one process has it exclusive, or any number shared.
const (
	exclusive = unix.LOCK_EX
	shared    = unix.LOCK_SH
)

// flock locks an open file. Without waiting it fails with errHeld if another process is in the way.
func flock(f *os.File, how int, wait bool) error {
	if !wait {
		how |= unix.LOCK_NB
	}
	err := unix.Flock(int(f.Fd()), how)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errHeld
	}
	return err
}
