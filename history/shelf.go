package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kloop-dev/kloop/internal/segments"
)

// A shelf holds chunks in files, or in memory where there is no directory, up to a number of bytes: the oldest go first. Its owner
// locks it, except while chunks are read.
type shelf struct {
	dir  string
	most int64

	file *os.File
	size int64    // of the file, or of all runs
	runs [][]byte // in memory: the chunks
}

func (s *shelf) files() segments.Dir {
	return segments.Dir{Path: s.dir, Suffix: ".history", Most: s.most}
}

// add puts a chunk behind all others.
func (s *shelf) add(h header, records []byte) error {
	chunk, err := pack(h, records)
	if err != nil {
		return err
	}
	if s.dir == "" {
		s.remember(chunk)
		return nil
	}
	if err := s.room(); err != nil {
		return err
	}
	n, err := s.file.Write(chunk)
	s.size += int64(n)
	if err != nil {
		_ = s.file.Close() // a torn chunk ends its file: the next one goes into another
		s.file = nil
		return fmt.Errorf("write the history: %w", err)
	}
	return nil
}

func (s *shelf) remember(chunk []byte) {
	s.runs = append(s.runs, chunk)
	s.size += int64(len(chunk))
	for len(s.runs) > 1 && s.size > s.most {
		s.size -= int64(len(s.runs[0]))
		s.runs[0], s.runs = nil, s.runs[1:]
	}
}

// room makes sure that there is a file that takes more. Every process begins one of its own.
func (s *shelf) room() (err error) {
	if s.file != nil && s.size < s.files().Share() {
		return nil
	}
	if err := s.close(); err != nil {
		return err
	}
	if s.file, err = s.files().Begin(); err != nil {
		return fmt.Errorf("begin a part of the history: %w", err)
	}
	s.size = 0
	return nil
}

func (s *shelf) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// opened are the files, or the chunks in memory, oldest first, as they are now. What is added to them later is not read.
func (s *shelf) opened() (list []io.ReadCloser, err error) {
	if s.dir == "" {
		for _, r := range s.runs {
			list = append(list, io.NopCloser(bytes.NewReader(r)))
		}
		return list, nil
	}
	names, err := s.files().List()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // its time had come
		}
		if err != nil {
			return list, fmt.Errorf("read the history: %w", err)
		}
		list = append(list, f)
	}
	return list, nil
}
