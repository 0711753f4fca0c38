package etcd_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/etcd"
)

// fill writes some keys to a new data directory and closes it.
func fill(t *testing.T, dir string) {
	t.Helper()
	s := open(t, dir)
	for i := range 200 {
		if _, err := s.Write(t.Context(), store.Write{Key: fmt.Sprintf("/registry/%d", i), Value: make([]byte, 1000)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestBrokenDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dbFile := func(dir string) string { return filepath.Join(dir, "member", "snap", "db") }
	logFile := func(dir string) string {
		names, _ := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
		return names[0]
	}
	edit := func(path string, change func([]byte) []byte) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, change(data), 0o600)
	}
	tests := []struct {
		name  string
		harm  func(dir string) error
		wants string
	}{
		{"no database", func(dir string) error { return os.Remove(dbFile(dir)) }, "the database"},
		{"no log", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "member", "wal")) }, "the log"},
		{"database is garbage", func(dir string) error {
			return edit(dbFile(dir), func(b []byte) []byte { return slices.Repeat([]byte("garbage!"), len(b)/8) })
		}, "the database"},
		{"database is cut off", func(dir string) error {
			return edit(dbFile(dir), func(b []byte) []byte { return b[:100_000] })
		}, "the database"},
		{"page of the database is lost", func(dir string) error {
			return edit(dbFile(dir), func(b []byte) []byte { clear(b[50_000:150_000]); return b })
		}, "the database"},
		{"bit in the log has flipped", func(dir string) error {
			return edit(logFile(dir), func(b []byte) []byte { b[50_000] ^= 4; return b })
		}, "the log"},
		{"end of the log is lost", func(dir string) error {
			return edit(logFile(dir), func(b []byte) []byte { clear(b[50_000:]); return b })
		}, "the log"},
		{"beginning of the log is lost", func(dir string) error {
			return os.Rename(logFile(dir), filepath.Join(dir, "member", "wal", "0000000000000003-0000000000000064.wal"))
		}, "the log"},
		{"file of the log is lost", func(dir string) error {
			data, err := os.ReadFile(logFile(dir))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "member", "wal", "0000000000000002-0000000000000100.wal"), data, 0o600)
		}, "the log"},
		{"log is empty", func(dir string) error { return os.Truncate(logFile(dir), 0) }, "the log"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir)
			if err := tt.harm(dir); err != nil {
				t.Fatal(err)
			}
			s, err := etcd.Open(t.Context(), etcd.Config{Dir: dir, Log: quiet(t)})
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			var corrupt *etcd.CorruptError
			if !errors.As(err, &corrupt) || !strings.Contains(corrupt.Part, tt.wants) {
				t.Errorf("got %v, want %s to be corrupt", err, tt.wants)
			}
			t.Log(err)
		})
	}
}

func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := etcd.Open(t.Context(), etcd.Config{Dir: dir, Log: quiet(t)}); !errors.Is(err, etcd.ErrInUse) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Write(t.Context(), store.Write{Key: "/a", Value: []byte("x")}); err != nil {
		t.Errorf("the first one does not work any more: %v", err)
	}
}

// A torn last record is what a killed process leaves behind: nothing in it was acknowledged.
func TestTornLog(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	names, _ := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	data, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	end := len(data)
	for end > 0 && data[end-1] == 0 {
		end--
	}
	end = (end + 7) / 8 * 8
	copy(data[end:], "\xe8\x03\x00\x00\x00\x00\x00\x00\x08\x02") // a record of 1000 bytes begins
	if err := os.WriteFile(names[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(names[0]+".broken", nil, 0o600); err != nil { // as etcd leaves
		t.Fatal(err)
	}
	s := open(t, dir)
	if page, err := s.List(t.Context(), "/registry/", "", 0, 0); err != nil || len(page.KVs) != 200 {
		t.Errorf("%d keys, %v", len(page.KVs), err)
	}
	if copies, _ := filepath.Glob(names[0] + ".*"); len(copies) > 0 {
		t.Errorf("a crash leaves %v behind", copies)
	}
	if info, err := os.Stat(names[0]); err != nil || info.Size() != int64(len(data)) {
		t.Errorf("the file of the log has %d bytes, and had %d: %v", info.Size(), len(data), err)
	}
}
