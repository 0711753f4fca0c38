package segments

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestBegin: however many files are begun, together they stay within the bounds in bytes and in number, the newest stay, and what is
// no part of the log is left alone.
func TestBegin(t *testing.T) {
	for _, size := range []int64{0, 10, 100} {
		d := Dir{Path: filepath.Join(t.TempDir(), "a", "b"), Suffix: ".log", Most: 800}
		if names, err := d.List(); err != nil || len(names) > 0 {
			t.Fatal(names, err)
		}
		var begun []string
		for i := range maxFiles + 10 {
			f, err := d.Begin()
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if err := os.WriteFile(filepath.Join(d.Path, "0.other"), make([]byte, 5000), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err = f.Write(make([]byte, size))
			if begun = append(begun, f.Name()); err != nil || f.Close() != nil {
				t.Fatal(err)
			}
		}
		names, err := d.List()
		if err != nil || len(names) == 0 || len(names) > maxFiles+1 || int64(len(names))*size > d.Most {
			t.Errorf("%d files of %d bytes, %v", len(names), size, err)
		}
		if !slices.Equal(names, begun[len(begun)-len(names):]) {
			t.Errorf("of %d bytes: not the newest files stay", size)
		}
		if _, err := os.Stat(filepath.Join(d.Path, "0.other")); err != nil {
			t.Error(err)
		}
	}
}

// TestBeginFails says why there is no file.
func TestBeginFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := (Dir{Path: file, Suffix: ".log", Most: 800}).Begin(); err == nil || f != nil {
		t.Errorf("%v, %v", f, err)
	}
}

// TestBeginBesideStuck: what can't be removed takes room, and keeps nobody from writing on while there is some.
func TestBeginBesideStuck(t *testing.T) {
	d := Dir{Path: t.TempDir(), Suffix: ".log", Most: 1 << 20}
	stuck := filepath.Join(d.Path, "0.log") // a directory that is not empty, which not even root can remove so
	if err := os.MkdirAll(filepath.Join(stuck, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	var last string
	for range 3 * Parts {
		f, err := d.Begin()
		if err != nil {
			t.Fatal(err)
		}
		last = f.Name()
		if err := errors.Join(f.Truncate(d.Share()), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	names, err := d.List()
	if err != nil || len(names) > Parts+1 || names[0] != stuck || names[len(names)-1] != last {
		t.Errorf("%d files: %v, %v", len(names), names, err)
	}
	d.Most = 1 // even an empty directory is more
	if f, err := d.Begin(); err == nil {
		t.Error(f.Name(), "was begun beside what leaves no room")
	}
}
