package clusters

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMountsBelow: what nodes and pods mounted goes, and the disks that somebody keeps a data directory on stay.
func TestMountsBelow(t *testing.T) {
	const root = "21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
	for _, tt := range []struct{ name, table, want string }{
		{"nothing", "", "[]"},
		{"volumes and overlays", "30 21 0:40 / /d/node/pods/u/volumes/x rw - tmpfs tmpfs rw\n" +
			"31 21 0:41 / /d/runtime/a/rootfs rw - overlay o rw\n", "[/d/node/pods/u/volumes/x /d/runtime/a/rootfs]"},
		{"elsewhere", "30 21 0:40 / /data/x rw - tmpfs tmpfs rw\n31 21 0:40 / /e/d/x rw - tmpfs tmpfs rw\n", "[]"},
		{"the directory on itself", "30 21 8:1 /d /d rw - ext4 /dev/sda1 rw\n", "[/d]"},
		{"a disk", "30 21 8:17 / /d rw - ext4 /dev/sdb1 rw\n31 30 0:40 / /d/node/x/y rw - tmpfs tmpfs rw\n", "[/d/node/x/y]"},
		{"a disk, and the directory on itself", "30 21 8:17 / /d rw - ext4 /dev/sdb1 rw\n31 30 8:17 / /d rw - ext4 /dev/sdb1 rw\n", "[/d]"},
		{"a disk for a part, and the node's root on itself",
			"30 21 8:17 / /d/store rw - ext4 /dev/sdb1 rw\n31 30 8:1 /d/node /d/node rw - ext4 /dev/sda1 rw\n", "[/d/node]"},
		{"a name with a blank", "30 21 0:40 / /d/a\\040b/c rw - tmpfs tmpfs rw\n", "[/d/a b/c]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fmt.Sprint(mountsBelow(root+tt.table, "/d")); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestNamesDirectory: a command line is of a directory if a path in it begins there.
func TestNamesDirectory(t *testing.T) {
	for _, tt := range []struct {
		line string
		want bool
	}{
		{"containerd\x00--config\x00/data/runtime/c.toml\x00", true}, {"kloop\x00--data-dir=/data/x", true}, {"/data/bin/kloop\x00up", true},
		{"containerd\x00-c\x00/mnt/data/runtime/c.toml\x00", false}, {"kloop\x00/data2/x", false}, {"kloop\x00/data", false},
		{"kloop\x00/mnt/data/a\x00/data/b", true}, {"kloop\x00/data/data/x", true}, {"kloop\x00/my-data/data/x", false},
	} {
		t.Run(tt.line, func(t *testing.T) {
			if names([]byte(tt.line), "/data") != tt.want {
				t.Errorf("%v, want %v", !tt.want, tt.want)
			}
		})
	}
}

// TestPodsOfAnother: the pods of an agent that works by now where a node did are not the node's.
func TestPodsOfAnother(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	err := errors.Join(os.MkdirAll(filepath.Join(root, "pods", "u1"), 0o700), os.Symlink(root, filepath.Join(dir, "node")),
		os.MkdirAll(filepath.Join(dir, "two", "node", "pods", "u2"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(podsBelow(dir)); got != "map[u1:true u2:true]" {
		t.Error(got)
	}
	f, err := os.Open(root)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := fmt.Sprint(podsBelow(dir)); got != "map[u2:true]" {
		t.Errorf("while another agent works there: %s", got)
	}
}
