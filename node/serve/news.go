package serve

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// news waits until a file may have grown or been replaced. Where inotify has nothing left to give it looks now
// and then.
type news struct {
	path string
	f    *os.File // of inotify; nil: there is none
}

// poll is the interval of looks without inotify.
const poll = 200 * time.Millisecond

func watchFile(path string) *news {
	n := &news{path: path}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return n
	}
	n.f = os.NewFile(uintptr(fd), "inotify")
	n.again()
	return n
}

// again watches the path anew, after another file has taken it.
func (n *news) again() {
	if n.f == nil {
		return
	}
	raw, err := n.f.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			_, e1 := unix.InotifyAddWatch(int(fd), n.path, unix.IN_MODIFY)
			_, e2 := unix.InotifyAddWatch(int(fd), filepath.Dir(n.path), unix.IN_CREATE|unix.IN_MOVED_TO)
			if e2 != nil {
				err = e2
			}
			_ = e1 // the file is between two names; the directory tells of the next
		})
	}
	if err != nil {
		n.close()
		n.f = nil
	}
}

// wait returns true when there may be news, and false after the given time or when ctx ends.
func (n *news) wait(ctx context.Context, d time.Duration) bool {
	if n.f == nil {
		return n.look(ctx, d)
	}
	if err := n.f.SetReadDeadline(time.Now().Add(d)); err != nil {
		return n.look(ctx, d)
	}
	stop := context.AfterFunc(ctx, func() { _ = n.f.SetReadDeadline(time.Now()) })
	defer stop()
	if ctx.Err() != nil {
		return false
	}
	var buf [4096]byte
	_, err := n.f.Read(buf[:])
	return err == nil
}

// look waits without inotify.
func (n *news) look(ctx context.Context, d time.Duration) bool {
	was, _ := os.Stat(n.path)
	for end := time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(poll):
		}
		now, _ := os.Stat(n.path)
		if now != nil && (was == nil || now.Size() != was.Size() || !os.SameFile(now, was)) {
			return true
		}
	}
	return false
}

func (n *news) close() {
	if n.f != nil {
		_ = n.f.Close()
	}
}
