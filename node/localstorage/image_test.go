package localstorage

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/node/volume"
	"github.com/kloop-dev/kloop/test/need"
)

// imageOf is an order about an image, and one to remove it.
func imageOf(form string, size int64) (mk, rm localvolume.Order) {
	return localvolume.Order{Do: localvolume.Make, Dir: dir, Form: form, Size: size}, localvolume.Order{Do: localvolume.Remove,
		Dir: dir, Form: form}
}

// withLoops opens a disk on a machine that has loop devices; the test leaves none behind.
func withLoops(t *testing.T, form string) *agent {
	t.Helper()
	need.BeRoot(t)
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("no loop devices: ", err)
	}
	if form != localvolume.Block {
		if _, err := exec.LookPath("mkfs." + form); err != nil {
			t.Skip(err)
		}
	}
	a := open(t)
	t.Cleanup(func() {
		_, rm := imageOf(form, 0)
		if err := a.disk.remove(rm); err != nil {
			t.Error(err)
		}
		if device := attached(a.disk.image(dir, form)); device != "" {
			t.Errorf("%s is left over", device)
		}
	})
	return a
}

// TestImage makes a volume with a limit, fills it, and removes it when it is no longer used.
func TestImage(t *testing.T) {
	const mib = 1 << 20
	a := withLoops(t, localvolume.Ext4)
	mk, rm := imageOf(localvolume.Ext4, 32*mib)
	do(t, a, mk)
	do(t, a, mk)
	path := filepath.Join(a.disk.dir, dir)
	if list, err := os.ReadDir(path); err != nil || len(list) > 0 {
		t.Error("a new volume is not empty: ", list, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o777 {
		t.Error(info.Mode(), err)
	}
	file := filepath.Join(path, "rows")
	if err := os.WriteFile(file, make([]byte, 48*mib), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("more than its size can be written: %v", err)
	}
	if err := os.WriteFile(file, make([]byte, 20*mib), 0o600); err != nil {
		t.Error(err)
	}
	held, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := a.do(t.Context(), "pvc-1", &rm); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("a volume in use is removed: %v", err)
	}
	held.Close()
	do(t, a, rm)
	do(t, a, rm)
	if _, err := os.Stat(path); err == nil || attached(a.disk.image(dir, localvolume.Ext4)) != "" {
		t.Error("the volume is still shown")
	}
	if err := a.disk.empty(t.Context()); err != nil {
		t.Error(err)
	}
	if got := names(t, a.disk); got != images {
		t.Errorf("there is %q", got)
	}
}

// TestImageGrows enlarges a volume while it is used.
func TestImageGrows(t *testing.T) {
	const mib = 1 << 20
	a := withLoops(t, localvolume.Ext4)
	need.MayResize(t)
	mk, _ := imageOf(localvolume.Ext4, 16*mib)
	do(t, a, mk)
	path := filepath.Join(a.disk.dir, dir)
	held, err := os.Create(filepath.Join(path, "row"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	grow := mk
	grow.Do, grow.Size = localvolume.Grow, 64*mib
	for range 2 {
		do(t, a, grow)
		var st unix.Statfs_t
		if err := unix.Statfs(path, &st); err != nil || int64(st.Blocks)*st.Bsize < 48*mib {
			t.Errorf("it has %d MiB: %v", int64(st.Blocks)*st.Bsize/mib, err)
		}
	}
	if _, err := held.WriteString("x"); err != nil {
		t.Error(err)
	}
	held.Close()
}

// TestImageAfterRestart shows images again that are shown no more, as after a start of the machine, and those that an agent was killed
// over.
func TestImageAfterRestart(t *testing.T) {
	a := withLoops(t, localvolume.Ext4)
	mk, _ := imageOf(localvolume.Ext4, 16<<20)
	if err := os.WriteFile(filepath.Join(a.disk.dir, begun+dir), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	do(t, a, mk)
	path := filepath.Join(a.disk.dir, dir)
	if err := os.WriteFile(filepath.Join(path, "row"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o700); err != nil { // its pod's own choice
		t.Fatal(err)
	}
	file := a.disk.image(dir, localvolume.Ext4)
	if err := a.disk.hide(mk, file, path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, "row")); err == nil {
		t.Fatal("it is still shown")
	}
	for range 2 {
		if err := a.disk.showAll(); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Error("the mode was changed: ", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(path, "row")); err != nil {
		t.Error(err)
	}
	if here, _, err := volume.Mounted(path); err != nil || !here {
		t.Error(here, err)
	}
}

// TestBlock makes a block device, and enlarges it.
func TestBlock(t *testing.T) {
	a := withLoops(t, localvolume.Block)
	mk, rm := imageOf(localvolume.Block, 8<<20)
	do(t, a, mk)
	path := filepath.Join(a.disk.dir, dir)
	size := func() int64 {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		n, err := f.Seek(0, 2)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeDevice == 0 || size() != 8<<20 {
		t.Fatal("no device of that size: ", err)
	}
	grow := mk
	grow.Do, grow.Size = localvolume.Grow, 12<<20
	do(t, a, grow)
	if size() != 12<<20 {
		t.Errorf("it has %d bytes", size())
	}
	do(t, a, rm)
	if _, err := os.Lstat(path); err == nil {
		t.Error("the link to the device stays")
	}
}

// small mounts a file system of 64 MiB, on which the agent's disk is.
func small(t *testing.T) *agent {
	t.Helper()
	withLoops(t, localvolume.Ext4)
	file, at := filepath.Join(t.TempDir(), "small"), t.TempDir()
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 64<<20)); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range [][]string{{"mkfs.ext4", "-q", "-F", "-m", "0", file}, {"mount", "-o", "loop", file, at}} {
		if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			t.Skip(err, string(out))
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	d, err := openDisk(filepath.Join(at, "storage"))
	if err != nil {
		t.Fatal(err)
	}
	return &agent{disk: d, trash: make(chan struct{}, 1)}
}

// TestImageOnFullDisk: an image for which the disk has too little room leaves it as it was: what was taken before that is given back,
// now or with the next try, and an image that is to grow keeps its size.
func TestImageOnFullDisk(t *testing.T) {
	a := small(t)
	if err := os.Mkdir(filepath.Join(a.disk.dir, images), 0o700); err != nil {
		t.Fatal(err)
	}
	before, err := a.disk.free()
	if err != nil {
		t.Fatal(err)
	}
	room := func(when string) {
		t.Helper()
		const slack = 1 << 20
		if now, err := a.disk.free(); err != nil || now < before-slack {
			t.Errorf("%s %d KiB are free, and %d were: %v", when, now>>10, before>>10, err)
		}
	}
	mk, _ := imageOf(localvolume.Block, before) // the file system needs some of it itself
	if err := a.do(t.Context(), "pvc-1", &mk); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("it is made: %v", err)
	}
	room("after that")
	begun := filepath.Join(a.disk.dir, begun+dir) // as an agent leaves it that was killed
	if err := os.WriteFile(begun, make([]byte, before*3/4), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.do(t.Context(), "pvc-1", &mk); err == nil {
		t.Error("with what was begun before it is made")
	}
	room("after another try")
	image := filepath.Join(a.disk.dir, "image")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := allocate(image, before); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("it has grown: %v", err)
	}
	if info, err := os.Stat(image); err != nil || info.Size() != 1<<20 {
		t.Errorf("it has %d bytes: %v", info.Size(), err)
	}
	before -= 1 << 20
	room("after it could not grow")
}
