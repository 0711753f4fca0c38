package logs

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Settling is the longest that Settled waits, and how long after its container's end a log may still grow.
const Settling = time.Second

const settlingStep = 10 * time.Millisecond

// Settled returns when all that an ended container wrote is in its log. Runtimes tell the end of a container as soon as they have read what
// it wrote; lines may reach the file a moment later, and the file is open until they have.
func Settled(ctx context.Context, path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	for end := time.Now().Add(Settling); beingWritten(f) && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return
		case <-time.After(settlingStep):
		}
	}
}

// beingWritten says whether anybody has the file open to write to it: the kernel then gives no lease to read it.
func beingWritten(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	ctlErr := raw.Control(func(fd uintptr) {
		if _, err = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); err == nil {
			_, err = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		}
	})
	return ctlErr == nil && errors.Is(err, unix.EAGAIN)
}
