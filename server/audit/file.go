package audit

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A File is the log: one JSON event a line.
type File struct {
	Path       string // "-": the standard output
	MaxAge     time.Duration
	MaxBackups int   // how many old files are kept; 0: all
	MaxSize    int64 // bytes from which a new file is begun; 0: never
	Compress   bool  // old files are compressed (gzip)
	Now        func() time.Time
	Stdout     io.Writer // what "-" stands for; nil: os.Stdout

	file *os.File
	size int64
}

// Name implements Output.
func (f *File) Name() string { return "log" }

// Batch implements Output.
func (f *File) Batch() (int, time.Duration) { return 400, 0 }

// Check opens the log, so that a wrong path is reported before anything is served.
func (f *File) Check() error {
	if f.Path == "-" {
		return nil
	}
	return f.open()
}

// Write implements Output. What goes wrong with old files is logged, and costs no event: a file that can't be renamed grows on.
func (f *File) Write(_ context.Context, events [][]byte) error {
	if f.Path == "-" {
		out := f.Stdout
		if out == nil {
			out = os.Stdout
		}
		return writeLines(out, events)
	}
	if err := f.open(); err != nil {
		return err
	}
	for len(events) > 0 {
		n, bytes := f.fitting(events)
		if n == 0 {
			renamed, err := f.rotate()
			if err != nil {
				return err
			}
			if n, bytes = f.fitting(events); !renamed {
				n, bytes = len(events), sizeOf(events)
			}
		}
		if err := writeLines(f.file, events[:n]); err != nil {
			return err
		}
		f.size, events = f.size+bytes, events[n:]
	}
	return nil
}

func sizeOf(events [][]byte) (bytes int64) {
	for _, e := range events {
		bytes += int64(len(e)) + 1
	}
	return bytes
}

// fitting counts the events that go into the present file, and their bytes: at least one into an empty one.
func (f *File) fitting(events [][]byte) (n int, bytes int64) {
	for _, e := range events {
		if f.MaxSize > 0 && f.size+bytes > 0 && f.size+bytes+int64(len(e))+1 > f.MaxSize {
			break
		}
		n, bytes = n+1, bytes+int64(len(e))+1
	}
	return n, bytes
}

func writeLines(w io.Writer, events [][]byte) error {
	b := bufio.NewWriterSize(w, 64<<10)
	for _, e := range events {
		_, _ = b.Write(e)
		_ = b.WriteByte('\n')
	}
	if err := b.Flush(); err != nil { // tells the errors of the writes as well
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
}

func (f *File) open() error {
	if f.file != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return fmt.Errorf("make the directory of the audit log: %w", err)
	}
	file, err := os.OpenFile(f.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	st, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open the audit log: %w", err), file.Close())
	}
	f.file, f.size = file, st.Size()
	return nil
}

// backupTime is the part of an old file's name that says when it ended.
const backupTime = "2006-01-02T15-04-05.000"

// rotate begins a new file and removes old ones that are too many or too old. Without an error there is a file to write to; renamed says
// that it is a new one.
func (f *File) rotate() (renamed bool, err error) {
	if err := f.Close(); err != nil {
		return false, err
	}
	ext := filepath.Ext(f.Path)
	stem := strings.TrimSuffix(f.Path, ext) + "-"
	name := stem + f.now().UTC().Format(backupTime) + ext
	for n := 1; exists(name) || exists(name+packed); n++ { // twice within a millisecond
		name = stem + f.now().UTC().Add(time.Duration(n)*time.Millisecond).Format(backupTime) + ext
	}
	untidy := os.Rename(f.Path, name)
	if renamed = untidy == nil; renamed {
		untidy = f.prune(stem, ext)
	}
	if untidy != nil {
		slog.Warn("old audit logs can't be kept as they are to be", "file", f.Path, "err", untidy)
	}
	return renamed, f.open()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (f *File) now() time.Time {
	if f.Now == nil {
		return time.Now()
	}
	return f.Now()
}

func (f *File) prune(stem, ext string) error {
	entries, err := os.ReadDir(filepath.Dir(f.Path))
	if err != nil {
		return fmt.Errorf("look for old audit logs: %w", err)
	}
	type old struct {
		path string
		at   time.Time
	}
	var all []old
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(f.Path), e.Name())
		rest, ok := strings.CutPrefix(path, filepath.Clean(stem[:len(stem)-1])+"-")
		if at, err := time.Parse(backupTime, strings.TrimSuffix(strings.TrimSuffix(rest, packed), ext)); ok && err == nil {
			all = append(all, old{path, at})
		}
	}
	coldsort.Func(all, func(a, b old) int { return b.at.Compare(a.at) })
	var errs []error
	for i, o := range all {
		switch {
		case f.MaxBackups > 0 && i >= f.MaxBackups || f.MaxAge > 0 && f.now().Sub(o.at) > f.MaxAge:
			errs = append(errs, os.Remove(o.path))
		case f.Compress && !strings.HasSuffix(o.path, packed):
			errs = append(errs, compress(o.path))
		}
	}
	return errors.Join(errs...)
}

// packed ends the name of a compressed file.
const packed = ".gz"

// compress puts a compressed file in the place of another. What a crash left half done is done again.
func compress(path string) (err error) {
	from, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("compress an old audit log: %w", err)
	}
	defer from.Close()
	half := path + packed + ".part"
	to, err := os.OpenFile(half, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("compress an old audit log: %w", err)
	}
	z := gzip.NewWriter(to)
	_, err = io.Copy(z, from)
	if err = errors.Join(err, z.Close(), to.Sync(), to.Close()); err != nil {
		return errors.Join(fmt.Errorf("compress %s: %w", path, err), os.Remove(half))
	}
	if err := os.Rename(half, path+packed); err != nil {
		return errors.Join(err, os.Remove(half))
	}
	return os.Remove(path)
}

// Close closes the file.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
