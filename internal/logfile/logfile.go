// Package logfile bounds the log of a program that knows nothing of it: one that writes what it has to say to a file that it was given.
package logfile

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/kloop-dev/kloop/internal/atomicfile"
)

// Most bytes may be in a log before it begins anew.
const Most = 16 << 20

const lookEvery = time.Minute

// Former ends the name of the file that has the end of the log before.
const Former = ".1"

// Create makes an empty log for a program to write to. It may be cut by Keep while the program has it.
func Create(path string, perm os.FileMode) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, perm)
}

// Keep looks at a log once a minute until ctx ends. What is longer than Most begins anew, and half of that is kept beside it. A line that
// is written at that moment may be lost.
func Keep(ctx context.Context, path string) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := cut(path, Most); err != nil && !errors.Is(err, os.ErrNotExist) {
			slog.Warn("a log grows on", "file", path, "err", err)
		}
	}
}

// cut begins a log anew that is longer than most, also where there is no room to keep its end.
func cut(path string, most int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= most {
		return err
	}
	end, err := io.ReadAll(io.NewSectionReader(f, info.Size()-most/2, most/2))
	if err == nil {
		err = atomicfile.Write(path+Former, end, info.Mode().Perm())
	}
	return errors.Join(err, f.Truncate(0))
}
