package trail

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/internal/segments"
)

// disk keeps writes in files of one JSON object a line. It is a log, not a truth: nothing is synced, and a line that
// can't be read is left out. A process goes on with the newest file of the one before it.
type disk struct {
	dir  string
	most int64 // bytes of all files

	mu   sync.Mutex
	file *os.File
	size int64
}

func (d *disk) files() segments.Dir {
	return segments.Dir{Path: d.dir, Suffix: ".jsonl", Most: d.most}
}

func (d *disk) write(list []Write) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for i := range list {
		if err := enc.Encode(&list[i]); err != nil {
			return fmt.Errorf("write the trail: %w", err)
		}
		if lines.Len() < chunk && i < len(list)-1 {
			continue
		}
		if err := d.open(); err != nil {
			return err
		}
		n, err := d.file.Write(lines.Bytes())
		d.size += int64(n)
		if err != nil { // its last line may be torn: the next one does not begin in it
			return errors.Join(fmt.Errorf("write the trail: %w", err), d.shut())
		}
		lines.Reset()
	}
	return nil
}

// chunk is the number of bytes written at once; no file is larger than its share by more.
const chunk = 64 << 10

// open makes sure that there is a segment with room.
func (d *disk) open() error {
	if d.file != nil && d.size < d.files().Share() {
		return nil
	}
	first := d.file == nil
	if err := d.shut(); err != nil {
		return err
	}
	if first {
		names, err := d.files().List()
		if err != nil {
			return err
		}
		if len(names) > 0 {
			if err := d.goOn(names[len(names)-1]); err != nil || d.file != nil {
				return err
			}
		}
	}
	f, err := d.files().Begin()
	if err != nil {
		return fmt.Errorf("begin a part of the trail: %w", err)
	}
	d.file, d.size = f, 0
	return nil
}

// goOn opens the newest segment of an earlier process if it has room. Its last line may be torn: the next one does not
// begin in it.
func (d *disk) goOn(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("go on with the trail: %w", err)
	}
	info, err := f.Stat()
	if err != nil || info.Size() >= d.files().Share() {
		return errors.Join(err, f.Close())
	}
	last := []byte{'\n'}
	if n := info.Size(); n > 0 {
		if _, err := f.ReadAt(last, n-1); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	d.file, d.size = f, info.Size()
	if last[0] != '\n' {
		_, err = f.Write([]byte{'\n'})
	}
	return err
}

func (d *disk) shut() error {
	if d.file == nil {
		return nil
	}
	err := d.file.Close()
	d.file = nil
	return err
}

// close ends writing; a nil disk has nothing to end.
func (d *disk) close() error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shut()
}

// longestLine bounds a line that is read; longer ones are no writes.
const longestLine = 256 << 10

// read returns the writes since a time that the function keeps, oldest first.
func (d *disk) read(since time.Time, keep func(*Write) bool) (out []Write, err error) {
	names, err := d.files().List()
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if info, err := os.Stat(name); err != nil || info.ModTime().Before(since) && i < len(names)-1 {
			continue
		}
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // its time had come
		}
		if err != nil {
			return out, fmt.Errorf("read the trail: %w", err)
		}
		out = scan(f, since, keep, out)
		if err := f.Close(); err != nil {
			return out, err
		}
	}
	return out, nil
}

func scan(r io.Reader, since time.Time, keep func(*Write) bool, out []Write) []Write {
	lines, whole := bufio.NewReaderSize(r, longestLine), true
	for {
		line, err := lines.ReadSlice('\n')
		var w Write
		if whole && json.Unmarshal(line, &w) == nil && !w.At.Before(since) && keep(&w) {
			out = append(out, w)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return out
		}
		whole = err == nil // what follows a piece of a line is no line
	}
}
