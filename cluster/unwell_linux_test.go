package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/test/need"
)

// gapOfServer waits until the one gap of a server's Lease has the cause; "": until there is none.
func gapOfServer(t *testing.T, c *cluster.Cluster, cause string) {
	t.Helper()
	cs := clientset(t, config(t, c))
	eventually(t, "a server's gap is "+cause, func(ctx context.Context) (bool, error) {
		var list struct{ Items []convergence.Gap }
		if err := told(ctx, cs, "/namespaces/kube-system/gaps", &list); err != nil {
			return false, err
		}
		for i := range list.Items {
			if g := &list.Items[i]; g.Object.Kind == "Lease" {
				return g.Cause == cause, nil
			}
		}
		return cause == "", nil
	})
}

// A server whose disk is nearly full says so to who asks what is wrong, and that it is over.
func TestFullDiskIsTold(t *testing.T) {
	need.BeRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=400m"); err != nil {
		need.Have(t, "mounts", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c := start(t, cluster.Config{DataDir: filepath.Join(dir, "data")})
	gapOfServer(t, c, "")
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, int64(st.Bavail)*st.Bsize-50<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	gapOfServer(t, c, "StoreRefusesWrites")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	gapOfServer(t, c, "")
}

// A member of the store that is gone is told of by one that is left, also when that one alone can write nothing.
func TestLostMemberIsTold(t *testing.T) {
	t.Parallel()
	a, b, _ := joined(t)
	gapOfServer(t, a, "")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	gapOfServer(t, a, "StoreMemberSilent")
}
