package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/test/need"
)

// A node whose images would lie on an overlay is refused, also before its directory is there; a volume in it is as good as any.
func TestLayered(t *testing.T) {
	need.BeRoot(t)
	dir := t.TempDir()
	if err := layered(filepath.Join(dir, "a", "b")); err != nil {
		t.Errorf("on a file system of its own: %v", err)
	}
	for _, name := range []string{"lower", "upper", "work", "all"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	all := filepath.Join(dir, "all")
	err := unix.Mount("overlay", all, "overlay", 0, "lowerdir="+dir+"/lower,upperdir="+dir+"/upper,workdir="+dir+"/work")
	need.Have(t, need.Root, err)
	t.Cleanup(func() {
		if err := unix.Unmount(all, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := layered(filepath.Join(all, "a", "b")); err == nil || !strings.Contains(err.Error(), "volume") {
		t.Errorf("on an overlay: %v", err)
	}
	volume := filepath.Join(all, "volume")
	if err := os.Mkdir(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", volume, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(volume, unix.MNT_DETACH) }()
	if err := layered(filepath.Join(volume, "a")); err != nil {
		t.Errorf("on a volume: %v", err)
	}
}
