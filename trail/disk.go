package trail

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// segments is into how many files the log is cut: the oldest goes when there is no room for another one.
const segments = 8

// disk keeps writes in files of one JSON object a line. It is a log, not a truth: nothing is synced, and a line that
// can't be read is left out. A process goes on with the newest file of the one before it.
type disk struct {
	dir  string
	most int64 // bytes of all files

	mu   sync.Mutex
	file *os.File
	size int64
}

// list names the segments, oldest first.
func (d *disk) list() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(d.dir, "*.jsonl"))
	slices.Sort(names)
	return names, err
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
		if err != nil {
			return fmt.Errorf("write the trail: %w", err)
		}
		lines.Reset()
	}
	return nil
}

// chunk is how much is written at once; no file is larger than its share by more.
const chunk = 64 << 10

// open makes sure that there is a segment with room.
func (d *disk) open() error {
	if d.file != nil && d.size < d.most/segments {
		return nil
	}
	first := d.file == nil
	if err := d.shut(); err != nil {
		return err
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the trail: %w", err)
	}
	names, err := d.list()
	if err != nil {
		return err
	}
	if first && len(names) > 0 {
		if err := d.goOn(names[len(names)-1]); err != nil || d.file != nil {
			return err
		}
	}
	if err := d.makeRoom(names); err != nil {
		return err
	}
	path := filepath.Join(d.dir, time.Now().UTC().Format("20060102T150405.000000000")+".jsonl")
	if d.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return fmt.Errorf("begin a part of the trail: %w", err)
	}
	d.size = 0
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
	if err != nil || info.Size() >= d.most/segments {
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

// makeRoom drops the oldest segments until there is room for another one.
func (d *disk) makeRoom(names []string) error {
	var total int64
	sizes := make([]int64, len(names))
	for i, name := range names {
		if info, err := os.Stat(name); err == nil {
			sizes[i] = info.Size()
			total += sizes[i]
		}
	}
	for i := 0; i < len(names) && total > d.most-d.most/segments; i++ {
		if err := os.Remove(names[i]); err != nil {
			return fmt.Errorf("drop the oldest part of the trail: %w", err)
		}
		total -= sizes[i]
	}
	return nil
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
	names, err := d.list()
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
