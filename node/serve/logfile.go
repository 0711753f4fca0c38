package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A logFile reads a log in the runtime's format: «time stream tag text», a line each; the tag says P when the
// text goes on in the next line of the stream. The runtime may rotate the file away and begin a new one.
type logFile struct {
	path string
	f    *os.File
	rd   *bufio.Reader
	rest []byte // of a line that is not complete yet
	part bool   // the last text given out did not end its line
	left int64  // bytes that may still be given out; -1: no limit
}

// maxLine bounds one line of a log file; the runtime cuts lines at 16 KiB.
const maxLine = 1 << 20

// stateCheck is the interval at which a follower asks whether the container still runs, when its log is silent.
const stateCheck = time.Second

func openLog(path string) (*logFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &logFile{path: path, f: f, rd: bufio.NewReaderSize(f, 32<<10)}, nil
}

func (l *logFile) close() { _ = l.f.Close() }

func gone(err error) bool { return status.Code(err) == codes.NotFound }

// copy writes what is wished for; with follow until the container has ended. flush is called when the reader has
// caught up.
func (l *logFile) copy(ctx context.Context, w io.Writer, flush func(), o wish) error {
	if l.left = o.limit; l.left == 0 {
		return nil
	}
	if o.ended {
		o.settled(ctx, l.path)
	}
	if o.tail >= 0 {
		at, err := tailStart(l.f, o.tail)
		if err != nil {
			return fmt.Errorf("find the last lines: %w", err)
		}
		if _, err := l.f.Seek(at, io.SeekStart); err != nil {
			return fmt.Errorf("find the last lines: %w", err)
		}
	}
	out := bufio.NewWriterSize(w, 32<<10)
	drain := func() (more bool, err error) {
		more, err = l.lines(ctx, out, o)
		err = errors.Join(err, out.Flush())
		flush()
		return more && err == nil, err
	}
	if !o.follow {
		if more, err := drain(); !more {
			return err
		}
		if len(l.rest) > 0 { // the runtime is in the middle of a line
			l.emit(out, append(l.rest, '\n'), o)
		}
		return out.Flush()
	}
	return l.follow(ctx, drain, o)
}

// follow drains the file again and again until the container has ended and all that it wrote is read.
func (l *logFile) follow(ctx context.Context, drain func() (bool, error), o wish) error {
	news := watchFile(l.path)
	defer news.close()
	for ended := false; ; {
		more, err := drain()
		if !more {
			return err
		}
		moved, err := l.reopen(drain)
		if err != nil {
			return err
		}
		if moved {
			news.again()
			continue
		}
		if ended {
			return nil
		}
		if !news.wait(ctx, stateCheck) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if ended = !o.alive(ctx); ended {
				o.settled(ctx, l.path)
			}
		}
	}
}

// reopen goes on with the file that has taken the path, when the one read so far was rotated away.
func (l *logFile) reopen(drain func() (bool, error)) (moved bool, err error) {
	now, err := os.Stat(l.path)
	if err != nil {
		return false, nil // between two files, or removed with its container
	}
	was, err := l.f.Stat()
	if err != nil {
		return false, err
	}
	if os.SameFile(now, was) {
		at, err := l.f.Seek(0, io.SeekCurrent)
		if err == nil && now.Size() < at { // cut short in place
			l.rest = nil
			_, err = l.f.Seek(0, io.SeekStart)
			l.rd.Reset(l.f)
			return err == nil, err
		}
		return false, nil
	}
	if more, err := drain(); !more { // what came between our last look and the rotation
		return false, err
	}
	f, err := os.Open(l.path)
	if err != nil {
		return false, nil
	}
	_ = l.f.Close()
	l.f, l.rest = f, nil
	l.rd.Reset(f)
	return true, nil
}

// lines gives out all complete lines that there are. more is false when nothing more is wanted.
func (l *logFile) lines(ctx context.Context, w io.Writer, o wish) (more bool, err error) {
	for ctx.Err() == nil {
		text, err := l.rd.ReadSlice('\n')
		switch {
		case err == nil:
		case errors.Is(err, bufio.ErrBufferFull):
			if len(l.rest) < maxLine {
				l.rest = append(l.rest, text...)
			}
			continue
		case errors.Is(err, io.EOF):
			l.rest = append(l.rest, text...)
			return true, nil
		default:
			return false, fmt.Errorf("read the log: %w", err)
		}
		if len(l.rest) > 0 {
			text = append(l.rest, text...)
			l.rest = nil
		}
		if more, err := l.emit(w, text, o); !more {
			return false, err
		}
	}
	return false, ctx.Err()
}

// emit writes one line of the file to the caller. It leaves out lines that are not asked for, or not in CRI's format.
func (l *logFile) emit(w io.Writer, line []byte, o wish) (more bool, err error) {
	e, ok := parse(line)
	if !ok || o.stream != "" && e.stream != o.stream || !o.since.IsZero() && e.time.Before(o.since) {
		return true, nil
	}
	if o.stamps && !l.part {
		e.text = append(append(append(make([]byte, 0, len(line)), e.stamp...), ' '), e.text...)
	}
	l.part = e.part
	if l.left >= 0 {
		e.text = e.text[:min(int64(len(e.text)), l.left)]
		l.left -= int64(len(e.text))
	}
	_, err = w.Write(e.text)
	return err == nil && l.left != 0, err
}

// An entry is one line of a log file.
type entry struct {
	stamp  []byte
	time   time.Time
	stream string
	part   bool
	text   []byte // with its newline, unless the line goes on
}

// parse takes a line of a log file apart.
func parse(line []byte) (e entry, ok bool) {
	stamp, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return e, false
	}
	when, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return e, false
	}
	stream, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok || string(stream) != "stdout" && string(stream) != "stderr" {
		return e, false
	}
	tag, text, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return e, false
	}
	first, _, _ := bytes.Cut(tag, []byte{':'})
	e = entry{stamp: stamp, time: when, stream: string(stream), part: string(first) == "P", text: text}
	if e.part {
		e.text = bytes.TrimSuffix(text, []byte{'\n'})
	}
	return e, true
}

// tailStart is the offset at which the last n lines begin. A line that is not complete counts as one.
func tailStart(f *os.File, n int64) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end := info.Size()
	if n == 0 {
		return end, nil
	}
	buf := make([]byte, 16<<10)
	for at, last := end, true; at > 0; {
		size := min(at, int64(len(buf)))
		at -= size
		if _, err := f.ReadAt(buf[:size], at); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := size - 1; i >= 0; i-- {
			if buf[i] == '\n' && !last {
				if n--; n == 0 {
					return at + i + 1, nil
				}
			}
			last = false // the newline at the very end ends the last line, it begins none
		}
	}
	return 0, nil
}
