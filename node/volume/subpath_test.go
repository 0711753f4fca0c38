package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSubPath(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := errors.Join(os.Chmod(base, 0o777|fs.ModeSetgid|fs.ModeSticky), os.MkdirAll(base+"/dir/in", 0o700),
		os.WriteFile(base+"/file", nil, 0o600),
		os.Symlink("dir/in", base+"/inner"), os.Symlink("../dir", base+"/dir/up"), os.Symlink(outside, base+"/away"),
		os.Symlink("../..", base+"/dir/climb"), os.Symlink("nothing", base+"/dangling"), os.Symlink("/proc/self/root",
			base+"/magic")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ sub, want, err string }{
		{"dir", "dir", ""}, {"file", "file", ""}, {"dir/in/", "dir/in", ""}, {"inner", "dir/in", ""}, {"inner/new", "dir/in/new", ""},
		{"new/deep/er", "new/deep/er", ""}, {"dir/up/in", "dir/in", ""}, {".", "", ""},
		{"away", "", "leads out"}, {"away/x", "", "leads out"}, {"dir/climb", "", "leads out"}, {"dir/climb/x", "", "leads out"},
		{"magic/etc", "", "leads out"},
		{"..", "", `without ".."`}, {"dir/../..", "", `without ".."`}, {"/etc", "", "relative"}, {"file/x", "", "not a directory"},
		{"dangling", "", "no such file"},
	} {
		t.Run(tt.sub, func(t *testing.T) {
			got, err := SubPath(base, tt.sub)
			switch {
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("%s: %q, error %v, want %q", tt.sub, got, err, tt.err)
			case tt.err == "" && (err != nil || got != filepath.Join(base, tt.want)):
				t.Errorf("%s: %q, error %v", tt.sub, got, err)
			}
		})
	}
	if info, err := os.Stat(base + "/new/deep"); err != nil || info.Mode() != fs.ModeDir|0o777|fs.ModeSetgid|fs.ModeSticky {
		t.Errorf("a made directory: %v %v", info, err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("made outside: %v", entries)
	}
}

func TestPin(t *testing.T) {
	needRoot(t)
	m := mounter(t, cluster())
	p := pod(t, `{volumes: [{name: v, emptyDir: {}}]}`)
	paths, err := m.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	base := paths["v"]
	pin := func(i int, sub string) string {
		t.Helper()
		path, err := m.Pin(p.UID, "c", i, base, sub)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	dir := pin(0, "a/b")
	if err := errors.Join(os.WriteFile(dir+"/f", []byte("one"), 0o600), os.WriteFile(base+"/file", []byte("two"), 0o600)); err != nil {
		t.Fatal(err)
	}
	// A container moves the directory away and leaves a symlink in its place.
	if err := errors.Join(os.Rename(base+"/a", base+"/was"), os.Mkdir(base+"/a", 0o700), os.Symlink("/etc", base+"/a/b")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(dir + "/f"); string(text) != "one" {
		t.Errorf("%q %v", text, err)
	}
	if _, err := m.Pin(p.UID, "c", 0, base, "a/b"); err == nil || !strings.Contains(err.Error(), "leads out") {
		t.Errorf("after the switch: %v", err)
	}
	for range 2 { // a container that starts again
		if text, err := os.ReadFile(pin(1, "file")); string(text) != "two" {
			t.Errorf("%q %v", text, err)
		}
	}
	if got := pin(1, "was/b"); got != filepath.Join(m.pinsDir(p.UID), "c", "1") {
		t.Error(got)
	}
	if err := m.Remove(t.Context(), p.UID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(base); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the volume is still there: %v", err)
	}
	points, err := mountPoints()
	for _, at := range points {
		if strings.HasPrefix(at, m.cfg.Dir) {
			t.Errorf("%s is still mounted", at)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// SubPath returns the path of sub inside the volume at base, and makes a directory of it where nothing is. No
// symlink that a container may have left leads out of the volume: that is an error. The answer holds no symlinks,
// but another container of the pod may put one there before the path is used: Pin is safe against that too.
func SubPath(base, sub string) (path string, err error) {
	fd, err := openSub(base, sub)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	path, err = os.Readlink(fdPath(fd))
	if err != nil {
		return "", fmt.Errorf("subpath %q: %w", sub, err)
	}
	return path, nil
}
