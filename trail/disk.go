package trail

import (
	"bufio"
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

// segments is how many files the log has: the oldest goes when a new one is begun.
const segments = 8

// disk keeps writes in files of one JSON object a line. It is a log, not a truth: nothing is synced, and a line that
// can't be read is left out.
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
	if err := d.open(); err != nil {
		return err
	}
	b := bufio.NewWriter(counter{d})
	enc := json.NewEncoder(b)
	for i := range list {
		if err := enc.Encode(&list[i]); err != nil {
			return fmt.Errorf("write the trail: %w", err)
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the trail: %w", err)
	}
	return nil
}

// counter writes to the open segment.
type counter struct{ d *disk }

func (c counter) Write(p []byte) (int, error) {
	n, err := c.d.file.Write(p)
	c.d.size += int64(n)
	return n, err
}

// open makes sure that there is a segment with room.
func (d *disk) open() error {
	if d.file != nil && d.size < d.most/segments {
		return nil
	}
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
	for len(names) >= segments {
		if err := os.Remove(names[0]); err != nil {
			return fmt.Errorf("drop the oldest part of the trail: %w", err)
		}
		names = names[1:]
	}
	path := filepath.Join(d.dir, time.Now().UTC().Format("20060102T150405.000000000")+".jsonl")
	if d.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return fmt.Errorf("begin a part of the trail: %w", err)
	}
	d.size = 0
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

// longestLine bounds a line that is read.
const longestLine = 1 << 20

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
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var w Write
		if json.Unmarshal(lines.Bytes(), &w) == nil && !w.At.Before(since) && keep(&w) {
			out = append(out, w)
		}
	}
	return out
}
