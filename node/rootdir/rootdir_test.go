package rootdir

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/test/need"
)

var quiet = slog.New(slog.DiscardHandler)

func open(t *testing.T, dir, former string) (used string, release func()) {
	t.Helper()
	used, release, err := Open(dir, former, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		release()
		unmountAll(dir)
	})
	return used, release
}

// unmountAll takes away what is mounted on the directory and below it.
func unmountAll(dir string) {
	for range 20 {
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return
		}
		_, below := read(string(text), dir)
		for _, p := range slices.Backward(below) {
			_ = unix.Unmount(p, unix.MNT_DETACH) // tried again
		}
		if unix.Unmount(dir, unix.MNT_DETACH) != nil && len(below) == 0 {
			return
		}
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAdopt takes over the pods of an agent that worked elsewhere, whatever it left half done, and the link tells where they are.
func TestAdopt(t *testing.T) {
	base := t.TempDir()
	dir, former := filepath.Join(base, "kubelet"), filepath.Join(base, "data/node")
	put(t, filepath.Join(former, "pods/a/volumes/x"), "1")
	put(t, filepath.Join(former, "pods/b/volumes/x"), "2")
	put(t, filepath.Join(former, "else"), "3")
	put(t, filepath.Join(dir, "pods/c/x"), "moved already")
	used, release := open(t, dir, former)
	if used != dir {
		t.Errorf("works in %s", used)
	}
	for _, pod := range []string{"a/volumes/x", "b/volumes/x", "c/x"} {
		for _, at := range []string{dir, former} {
			if _, err := os.Stat(filepath.Join(at, "pods", pod)); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := os.Stat(former + ".before/else"); err != nil {
		t.Error("what is no pod's is lost:", err)
	}
	for _, name := range folders {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o750 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, _, err := Open(dir, "", quiet); !errors.Is(err, ErrHeld) || !Held(dir) {
		t.Errorf("a second agent: %v", err)
	}
	release()
	if Held(dir) {
		t.Error("held after its release")
	}
	_, release = open(t, dir, former) // once more: nothing to do
	release()
	unmountAll(dir) // the machine starts anew
	other := filepath.Join(base, "other")
	open(t, other, former) // the setting changed
	if got, err := os.Readlink(former); err != nil || got != other {
		t.Errorf("the link leads to %s, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(other, "pods/a/volumes/x")); err != nil {
		t.Error(err)
	}
}

// TestOwnMount moves pods from a directory that an agent made a shared mount and left: all of them, or none while one has something mounted
// there. An agent that works there keeps it.
func TestOwnMount(t *testing.T) {
	need.BeRoot(t)
	base := t.TempDir()
	first, second := filepath.Join(base, "first"), filepath.Join(base, "second")
	_, release := open(t, first, "")
	t.Cleanup(func() { unmountAll(first) })
	put(t, filepath.Join(first, "pods/a/volumes/x"), "1")
	if _, _, err := Open(second, first, quiet); !errors.Is(err, ErrHeld) {
		t.Errorf("an agent works there: %v", err)
	}
	release()
	if err := unix.Mount("tmpfs", filepath.Join(first, "pods/a/volumes"), "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	used, release := open(t, second, first)
	if used != first {
		t.Errorf("works in %s, where the pod's volume is not", used)
	}
	release()
	if err := unix.Unmount(filepath.Join(first, "pods/a/volumes"), 0); err != nil {
		t.Fatal(err)
	}
	if used, _ := open(t, second, first); used != second {
		t.Errorf("works in %s", used)
	}
	if _, err := os.Stat(filepath.Join(second, "pods/a/volumes/x")); err != nil {
		t.Error(err)
	}
	if got, err := os.Readlink(first); err != nil || got != second {
		t.Errorf("the link leads to %s, %v", got, err)
	}
}

// TestAdoptClash refuses to choose between two directories of one pod.
func TestAdoptClash(t *testing.T) {
	base := t.TempDir()
	dir, former := filepath.Join(base, "kubelet"), filepath.Join(base, "node")
	put(t, filepath.Join(former, "pods/a/x"), "1")
	put(t, filepath.Join(dir, "pods/a/x"), "2")
	if _, _, err := Open(dir, former, quiet); err == nil || !strings.Contains(err.Error(), "both have the pod a") {
		t.Error(err)
	}
	if Held(dir) {
		t.Error("held after a failure")
	}
}

// TestOtherFileSystem stays where pods are that can't be moved.
func TestOtherFileSystem(t *testing.T) {
	need.BeRoot(t)
	base := t.TempDir()
	dir, former := filepath.Join(base, "kubelet"), filepath.Join(base, "node")
	if err := os.Mkdir(former, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", former, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmountAll(former) })
	put(t, filepath.Join(former, "pods/a/x"), "1")
	if used, _ := open(t, dir, former); used != former {
		t.Errorf("works in %s", used)
	}
	if _, err := os.Stat(filepath.Join(former, "pods/a/x")); err != nil {
		t.Error(err)
	}
}

// TestShared has a mount made in a container's copy of the directory reach the directory, with what was mounted there before in its
// place, once.
func TestShared(t *testing.T) {
	need.BeRoot(t)
	base := t.TempDir()
	dir := filepath.Join(base, "kubelet")
	old := filepath.Join(dir, "pods/a/tmp")
	put(t, filepath.Join(dir, "pods/a/x"), "")
	for _, d := range []string{old, filepath.Join(dir, "plugins/new"), filepath.Join(base, "copy")} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", old, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(old, "kept"), "")
	_, release := open(t, dir, "")
	release()
	open(t, dir, "") // no second mount
	copied := filepath.Join(base, "copy")
	if err := unix.Mount(dir, copied, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmountAll(copied) })
	if err := unix.Mount("tmpfs", filepath.Join(copied, "plugins/new"), "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(copied, "plugins/new/file"), "")
	for _, path := range []string{"plugins/new/file", "pods/a/tmp/kept"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
			t.Error("not on the node:", err)
		}
	}
	if err := unix.Unmount(old, 0); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), old+" "); n != 0 {
		t.Errorf("%d mounts are left on %s", n, old)
	}
}

func TestRead(t *testing.T) {
	const table = `1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/a rw
2 1 0:5 / /var/lib rw - ext4 /dev/b rw
3 2 0:6 / /var/lib/kubelet/pods/a\040b rw shared:7 master:2 - tmpfs tmpfs rw
4 1 0:7 / /var/libs rw shared:3 - tmpfs tmpfs rw
`
	for _, tt := range []struct {
		dir    string
		shared bool
		below  string
	}{
		{"/var/lib/kubelet", false, "/var/lib/kubelet/pods/a b"}, {"/var/lib", false, "/var/lib/kubelet/pods/a b"}, {"/etc", true, ""},
		{"/var/libs", true, ""}, {"/var/lib/kubelet/pods/a b/c", true, ""},
	} {
		t.Run(tt.dir, func(t *testing.T) {
			shared, below := read(table, tt.dir)
			if shared != tt.shared || strings.Join(below, ",") != tt.below {
				t.Errorf("%s: %v %q", tt.dir, shared, below)
			}
		})
	}
	if shared, _ := read(table+"5 2 0:8 / /var/lib rw shared:9 - tmpfs tmpfs rw\n", "/var/lib/kubelet"); !shared {
		t.Error("the mount on top decides")
	}
}
