package localstorage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/test/need"
)

const snap = "snapcontent-1_ns_before"

func snapshotOrder(what, from string) *localvolume.Order {
	return &localvolume.Order{Do: what, Dir: snap, Form: localvolume.Ext4, From: from}
}

// TestSnapshot copies a volume while it is used, and makes another of the copy: that has what was there then, and its own size.
func TestSnapshot(t *testing.T) {
	const mib = 1 << 20
	a := withLoops(t, localvolume.Ext4)
	need.MayResize(t)
	mk, _ := imageOf(localvolume.Ext4, 32*mib)
	do(t, a, mk)
	row := filepath.Join(a.disk.dir, dir, "row")
	held, err := os.Create(row)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := held.WriteString("before"); err != nil {
		t.Fatal(err)
	}
	order := snapshotOrder(localvolume.Copy, dir)
	if err := a.do(t.Context(), snapshotOf+"snapcontent-1", order); err != nil {
		t.Fatal(err)
	}
	if order.Bytes != 32*mib || order.At == 0 {
		t.Errorf("the answer: %+v", order)
	}
	if _, err := held.WriteString(" and after"); err != nil { // it is not held still any more
		t.Fatal(err)
	}
	again := snapshotOrder(localvolume.Copy, dir)
	if err := a.do(t.Context(), snapshotOf+"snapcontent-1", again); err != nil || again.At != order.At {
		t.Errorf("it is made a second time: %+v, %v", again, err)
	}
	const second = "pvc-2_ns_copy"
	from := localvolume.Snapshot{Dir: snap, Form: localvolume.Ext4}.File()
	other := localvolume.Order{Do: localvolume.Make, Dir: second, Form: localvolume.Ext4, Size: 64 * mib, From: from}
	t.Cleanup(func() {
		if err := a.disk.remove(localvolume.Order{Do: localvolume.Remove, Dir: second, Form: localvolume.Ext4}); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		if err := a.do(t.Context(), "pvc-2", &other); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(a.disk.dir, second, "row")); err != nil || string(text) != "before" {
		t.Errorf("the copy has %q, %v", text, err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Join(a.disk.dir, second), &st); err != nil || st.Blocks*uint64(st.Bsize) < 48*mib {
		t.Errorf("the copy has %d bytes, %v", st.Blocks*uint64(st.Bsize), err)
	}
	if err := a.do(t.Context(), snapshotOf+"snapcontent-1", snapshotOrder(localvolume.Remove, "")); err != nil {
		t.Fatal(err)
	}
	lost := snapshotOrder(localvolume.Copy, "")
	if err := a.do(t.Context(), snapshotOf+"snapcontent-1", lost); err == nil {
		t.Error("a snapshot is found that was removed")
	}
}

// TestThaw lets writes go on that an agent held when it died.
func TestThaw(t *testing.T) {
	a := withLoops(t, localvolume.Ext4)
	mk, _ := imageOf(localvolume.Ext4, 16<<20)
	do(t, a, mk)
	resume, err := a.disk.hold(*snapshotOrder(localvolume.Copy, dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.disk.showAll(); err != nil { // what a new agent begins with
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(filepath.Join(a.disk.dir, dir, "row"), []byte("x"), 0o600) }()
	if err := errors.Join(<-written, resume()); err != nil {
		t.Error(err)
	}
}

// TestSnapshotOrders refuses what would lead elsewhere.
func TestSnapshotOrders(t *testing.T) {
	a := open(t)
	for text, o := range map[string]localvolume.Order{
		"is not a file of this snapshot": {Do: localvolume.Copy, Dir: "snapcontent-2_ns_x", Form: localvolume.Ext4},
		"not a file":                     {Do: localvolume.Copy, Dir: snap, Form: localvolume.Directory},
		"is not a volume":                {Do: localvolume.Copy, Dir: snap, Form: localvolume.Ext4, From: "../x"},
		"no such snapshot":               {Do: localvolume.Copy, Dir: snap, Form: localvolume.Ext4},
		"knows no order":                 {Do: "sing", Dir: snap, Form: localvolume.Ext4},
	} {
		t.Run(text, func(t *testing.T) {
			if err := a.do(t.Context(), snapshotOf+"snapcontent-1", &o); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%+v: %v, want %q", o, err, text)
			}
		})
	}
	o := localvolume.Order{Do: localvolume.Make, Dir: dir, Form: localvolume.Ext4, Size: 1 << 20, From: "../../etc/passwd"}
	if err := a.do(t.Context(), "pvc-1", &o); err == nil || !strings.Contains(err.Error(), "is not a snapshot") {
		t.Errorf("a volume is made of another file: %v", err)
	}
}
