package plugins

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// watchTree hints when something below the directory may have changed. A hint may be missing: who waits for one looks now and then
// all the same. It ends with ctx.
func watchTree(ctx context.Context, dir string, log *slog.Logger) <-chan struct{} {
	hints := make(chan struct{}, 1)
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		log.Warn("plugins: the directory is looked at now and then only", "every", lookEvery, "err", err)
		return hints
	}
	f := os.NewFile(uintptr(fd), "inotify")
	add := func() {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() { // one that is watched already stays so
				_, _ = unix.InotifyAddWatch(fd, path, unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVE|unix.IN_ATTRIB)
			}
			return nil
		})
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Now()) }) // ends the read
	go func() {
		defer stop()
		defer f.Close()
		for buf := make([]byte, 16<<10); ; {
			add() // before the look that the hint asks for: what comes later is heard of
			select {
			case hints <- struct{}{}:
			default:
			}
			if _, err := f.Read(buf); err != nil {
				return
			}
		}
	}()
	return hints
}
