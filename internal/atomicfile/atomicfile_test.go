package atomicfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A reader finds one of the contents whole, however often they change.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	texts := [][]byte{bytes.Repeat([]byte("a"), 1<<20), []byte("b")}
	if err := Write(path, texts[0], 0o640); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		var err error
		for i := 0; i < 50 && err == nil; i++ {
			err = Write(path, texts[i%2], 0o640)
		}
		done <- err
	}()
	for reads := 0; ; reads++ {
		select {
		case err := <-done:
			if err != nil || reads == 0 {
				t.Fatalf("%d reads, %v", reads, err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("%v, %v", info, err)
			}
			return
		default:
		}
		if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, texts[0]) && !bytes.Equal(text, texts[1]) {
			t.Fatalf("read %d bytes, %v", len(text), err)
		}
	}
}

// A write that fails leaves what was there, and nothing beside it.
func TestFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if err := Write(filepath.Join(dir, "none", "file"), nil, 0o600); !os.IsNotExist(err) {
		t.Errorf("without a directory: %v", err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Errorf("left is %v, %v", list, err)
	}
}
