package localstorage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/test/need"
)

const dir = "pvc-1_ns_data"

var (
	mk = localvolume.Order{Do: localvolume.Make, Dir: dir, Form: localvolume.Directory, Size: 1 << 20}
	rm = localvolume.Order{Do: localvolume.Remove, Dir: dir, Form: localvolume.Directory}
)

func open(t *testing.T) *agent {
	t.Helper()
	d, err := openDisk(filepath.Join(t.TempDir(), "storage"))
	if err != nil {
		t.Fatal(err)
	}
	return &agent{disk: d, trash: make(chan struct{}, 1)}
}

func names(t *testing.T, d *disk) string {
	t.Helper()
	list, err := os.ReadDir(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		name, _, _ := strings.Cut(e.Name(), dir+"-")
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func do(t *testing.T, a *agent, o localvolume.Order) {
	t.Helper()
	if err := a.do(t.Context(), "pvc-1", &o); err != nil {
		t.Fatal(err)
	}
}

// TestTwice does each order twice: what was written stays, and what is gone stays gone.
func TestTwice(t *testing.T) {
	a := open(t)
	do(t, a, mk)
	file := filepath.Join(a.disk.dir, dir, "row")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	do(t, a, mk)
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	do(t, a, rm)
	do(t, a, rm)
	if got := names(t, a.disk); got != trash {
		t.Errorf("there is %q", got)
	}
	do(t, a, mk) // the name is free at once
	if err := a.disk.empty(t.Context()); err != nil {
		t.Error(err)
	}
	if got := names(t, a.disk); got != dir {
		t.Errorf("there is %q", got)
	}
	if list, _ := os.ReadDir(filepath.Join(a.disk.dir, dir)); len(list) > 0 {
		t.Error("a new volume is not empty")
	}
}

// TestBegun finds what an agent left that was killed while it made a volume.
func TestBegun(t *testing.T) {
	a := open(t)
	half := filepath.Join(a.disk.dir, begun+dir)
	for _, o := range []localvolume.Order{mk, rm} {
		if err := os.MkdirAll(filepath.Join(half, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		do(t, a, o)
		if _, err := os.Stat(half); err == nil {
			t.Errorf("%s leaves it", o.Do)
		}
	}
}

// TestOnlyItsOwn has orders that name what is not the volume's.
func TestOnlyItsOwn(t *testing.T) {
	a := open(t)
	outside := filepath.Join(filepath.Dir(a.disk.dir), "pvc-1_x")
	other := filepath.Join(a.disk.dir, "pvc-2_ns_data")
	for _, p := range []string{outside, other} {
		if err := os.Mkdir(p, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"../pvc-1_x", "pvc-2_ns_data", "", ".", "pvc-1_/../../pvc-1_x", outside} {
		for _, o := range []localvolume.Order{mk, rm} {
			o.Dir = d
			if err := a.do(t.Context(), "pvc-1", &o); err == nil {
				t.Errorf("%s %q is done", o.Do, d)
			}
		}
	}
	for _, p := range []string{outside, other} {
		if _, err := os.Stat(p); err != nil {
			t.Error(err)
		}
	}
}

// TestLinks removes a volume in which a pod has left links to what is not its own.
func TestLinks(t *testing.T) {
	a := open(t)
	do(t, a, mk)
	host := t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "passwd"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(host, filepath.Join(a.disk.dir, dir, "link")); err != nil {
		t.Fatal(err)
	}
	do(t, a, rm)
	if err := a.disk.empty(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(host, "passwd")); err != nil || names(t, a.disk) != "" {
		t.Error("what a link names is removed, or the volume is not: ", err)
	}
}

func TestTooLarge(t *testing.T) {
	a := open(t)
	o := mk
	o.Size = 1 << 60
	if err := a.do(t.Context(), "pvc-1", &o); err == nil || !strings.Contains(err.Error(), "not enough room") {
		t.Errorf("got %v", err)
	}
	if got := names(t, a.disk); got != "" {
		t.Errorf("there is %q", got)
	}
}

// TestMounted has something mounted in a volume: it must not be removed, nor what is mounted.
func TestMounted(t *testing.T) {
	need.BeRoot(t)
	a := open(t)
	do(t, a, mk)
	at, host := filepath.Join(a.disk.dir, dir, "m"), t.TempDir()
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(host, at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(at, unix.MNT_DETACH) }()
	if err := a.do(t.Context(), "pvc-1", &rm); err == nil || !strings.Contains(err.Error(), "mounted") {
		t.Errorf("got %v", err)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	do(t, a, rm)
}

func TestNear(t *testing.T) {
	const gi = 1 << 30
	for _, tt := range []struct {
		told, free int64
		want       bool
	}{{100 * gi, 100 * gi, true}, {100 * gi, 97 * gi, true}, {100 * gi, 80 * gi, false}, {gi, 0, false}, {300 << 20, 100 << 20, false}} {
		if near(tt.told, tt.free) != tt.want {
			t.Errorf("%d and %d", tt.told, tt.free)
		}
	}
}
