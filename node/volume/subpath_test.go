package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSubPath(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := errors.Join(os.Chmod(base, 0o777), os.MkdirAll(base+"/dir/in", 0o700), os.WriteFile(base+"/file", nil, 0o600),
		os.Symlink("dir/in", base+"/inner"), os.Symlink("../dir", base+"/dir/up"), os.Symlink(outside, base+"/away"),
		os.Symlink("../..", base+"/dir/climb"), os.Symlink("nothing", base+"/dangling"), os.Symlink("/proc/self/root", base+"/magic")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ sub, want, err string }{
		{"dir", "dir", ""}, {"file", "file", ""}, {"dir/in/", "dir/in", ""}, {"inner", "dir/in", ""}, {"inner/new", "dir/in/new", ""},
		{"new/deep/er", "new/deep/er", ""}, {"dir/up/in", "dir/in", ""}, {".", "", ""},
		{"away", "", "leads out"}, {"away/x", "", "leads out"}, {"dir/climb", "", "leads out"}, {"dir/climb/x", "", "leads out"}, {"magic/etc", "", "leads out"},
		{"..", "", `without ".."`}, {"dir/../..", "", `without ".."`}, {"/etc", "", "relative"}, {"file/x", "", "not a directory"}, {"dangling", "", "no such file"},
	} {
		got, err := SubPath(base, tt.sub)
		switch {
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: %q, error %v, want %q", tt.sub, got, err, tt.err)
		case tt.err == "" && (err != nil || got != filepath.Join(base, tt.want)):
			t.Errorf("%s: %q, error %v", tt.sub, got, err)
		}
	}
	if info, err := os.Stat(base + "/new/deep"); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("a made directory: %v %v", info, err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("made outside: %v", entries)
	}
}
