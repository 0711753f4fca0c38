package volume

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/need"
)

// loopDevice is a device of 32 MiB that goes with the test.
func loopDevice(t *testing.T) string {
	t.Helper()
	need.BeRoot(t)
	for _, name := range []string{"losetup", "blkid", "mkfs.ext4", "mkswap"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("no loop devices: ", err)
	}
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 32<<20); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Error(err, string(out))
		}
	})
	return device
}

// blockRig is a claim of a local volume that is a block device, and a mounter for pods that use it.
type blockRig struct {
	t  *testing.T
	c  *fake
	m  *Mounter
	pv *corev1.PersistentVolume
}

func newBlockRig(t *testing.T) *blockRig {
	c := cluster()
	pvc := &corev1.PersistentVolumeClaim{}
	pvc.Name, pvc.UID, pvc.Spec.VolumeName, pvc.Status.Phase = "data", "c1", "pv1", corev1.ClaimBound
	pv := &corev1.PersistentVolume{}
	pv.Name, pv.Spec.Local = "pv1", &corev1.LocalVolumeSource{Path: loopDevice(t)}
	pv.Spec.ClaimRef = &corev1.ObjectReference{UID: "c1"}
	c.server["persistentvolumeclaims/ns/data"], c.server["persistentvolumes//pv1"] = resource.Object(pvc), resource.Object(pv)
	r := &blockRig{t: t, c: c, m: mounter(t, c), pv: pv}
	t.Cleanup(func() {
		if err := unmountBelow(r.m.cfg.Dir); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *blockRig) prepare(uid types.UID) (string, error) {
	p := pod(r.t, `{volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}`)
	p.UID = uid
	paths, err := r.m.Prepare(r.t.Context(), p)
	return paths["v"], err
}

func (r *blockRig) mount(uid types.UID) string {
	r.t.Helper()
	path, err := r.prepare(uid)
	if err != nil {
		r.t.Fatal(err)
	}
	if here, err := mountPoint(path); err != nil || !here {
		r.t.Fatalf("nothing is mounted on %s: %v", path, err)
	}
	return path
}

func (r *blockRig) remove(uid types.UID) {
	r.t.Helper()
	if err := r.m.Remove(r.t.Context(), uid); err != nil {
		r.t.Fatal(err)
	}
}

// TestBlockAsFiles: an empty local device gets a file system, once; pods share it, an agent that starts anew finds it, the last pod lets
// go of it, and what is on it stays.
func TestBlockAsFiles(t *testing.T) {
	r := newBlockRig(t)
	plugins := ""
	r.m.cfg.Took = func(what, plugin string, _ time.Duration, _ error) { plugins += what + " " + plugin + "\n" }
	first := r.mount("u1")
	if plugins != "volume_mount kubernetes.io/local-volume\n" {
		t.Errorf("told %q", plugins)
	}
	if err := os.WriteFile(filepath.Join(first, "f"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	anew := *r
	anew.m = New(Config{Dir: r.m.cfg.Dir, Client: r.m.cfg.Client, Node: "n1"})
	if again := anew.mount("u1"); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	second := anew.mount("u2")
	p := pod(t, `{volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}`)
	if u := anew.m.Usage(t.Context(), p); len(u) != 1 || u[0].Size == 0 || u[0].Size > 32<<20 {
		t.Errorf("how full the volume is: %+v", u)
	}
	anew.remove("u1")
	shared := r.m.local.shared("pv1")
	if here, err := mountPoint(shared); err != nil || !here {
		t.Errorf("let go of a volume that is used: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(second, "f")); string(text) != "kept" {
		t.Errorf("%q, %v", text, err)
	}
	anew.remove("u2")
	if _, err := os.Lstat(shared); !os.IsNotExist(err) {
		t.Errorf("no pod uses the volume, and it is still mounted: %v", err)
	}
	third := anew.mount("u3")
	if text, err := os.ReadFile(filepath.Join(third, "f")); string(text) != "kept" {
		t.Errorf("mounted again: %q, %v", text, err)
	}
	anew.remove("u3")
	other := "xfs"
	r.pv.Spec.Local.FSType = &other
	if _, err := r.prepare("u4"); err == nil || !strings.Contains(err.Error(), "already contains ext4") {
		t.Errorf("mounted as xfs: %v", err)
	}
	anew.remove("u4")
	r.pv.Spec.Local.FSType = nil
	fourth := anew.mount("u5")
	if text, err := os.ReadFile(filepath.Join(fourth, "f")); string(text) != "kept" {
		t.Errorf("after a wrong type: %q, %v", text, err)
	}
	anew.remove("u5")
}

// TestBlockOfOthers: a device that has something else on it is never formatted.
func TestBlockOfOthers(t *testing.T) {
	r := newBlockRig(t)
	if out, err := exec.Command("mkswap", r.pv.Spec.Local.Path).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	ext4, bad := "ext4", "../x"
	for _, form := range []*string{nil, &ext4, &bad} {
		r.pv.Spec.Local.FSType = form
		if path, err := r.prepare("u1"); err == nil {
			t.Errorf("mounted on %s", path)
		}
		if has, err := formatOf(t.Context(), r.pv.Spec.Local.Path); has != "swap" {
			t.Errorf("the device has %q, %v", has, err)
		}
	}
	r.remove("u1")
}

// TestLetGoOfNothing: who can't see the pods lets go of nothing; without pods what lies there goes.
func TestLetGoOfNothing(t *testing.T) {
	m := mounter(t, cluster())
	shared, pods := m.local.shared("pv1"), filepath.Join(m.cfg.Dir, "pods")
	if err := os.MkdirAll(shared, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pods, nil, 0o600); err != nil { // no directory: it can't be read
		t.Fatal(err)
	}
	if err := m.local.letGo(); err == nil {
		t.Error("nobody knows who uses the volume")
	}
	if _, err := os.Lstat(shared); err != nil {
		t.Error(err)
	}
	if err := os.Remove(pods); err != nil {
		t.Fatal(err)
	}
	if err := m.local.letGo(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(shared); !os.IsNotExist(err) {
		t.Error("it is still there: ", err)
	}
}

// TestGroupOfDevice gives the files on a local device to the group of the first of the pods that use it together.
func TestGroupOfDevice(t *testing.T) {
	r := newBlockRig(t)
	for _, s := range []struct {
		name      string
		uid, gone types.UID
		group     int64
		want      int
	}{
		{"the first", "u1", "", 5, 5},
		{"the same for a second", "u2", "", 5, 5},
		{"a third that asks for another", "u3", "", 7, 5},
		{"after all are gone", "u4", "u1 u2 u3", 7, 7},
	} {
		for _, uid := range strings.Fields(string(s.gone)) {
			r.remove(types.UID(uid))
		}
		p := pod(t, `{volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}`)
		p.UID, p.Spec.SecurityContext = s.uid, &corev1.PodSecurityContext{FSGroup: &s.group}
		paths, err := r.m.Prepare(t.Context(), p)
		if err != nil {
			t.Fatal(s.name, err)
		}
		if got := gidOf(t, paths["v"]); got != s.want {
			t.Errorf("%s: %s asks for %d: the root is %d's, want %d", s.name, s.uid, s.group, got, s.want)
		}
	}
	r.remove("u4")
}

// TestBlockAsDevice hands a local device to pods as it is, and tells its size.
func TestBlockAsDevice(t *testing.T) {
	r, block := newBlockRig(t), corev1.PersistentVolumeBlock
	r.pv.Spec.VolumeMode = &block
	p := pod(t, `{volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], `+
		`containers: [{name: c, volumeDevices: [{name: v, devicePath: /dev/x}]}]}`)
	for _, uid := range []types.UID{"u1", "u2"} {
		p.UID = uid
		if paths, err := r.m.Prepare(t.Context(), p); err != nil || paths["v"] != r.pv.Spec.Local.Path {
			t.Errorf("%v, %v", paths, err)
		}
		if u := r.m.Usage(t.Context(), p); len(u) != 1 || u[0].Size != 32<<20 || u[0].Used != 0 || u[0].Claim != "data" {
			t.Errorf("how large the device is: %+v", u)
		}
		r.remove(uid)
	}
}

func TestFormatIn(t *testing.T) {
	for out, want := range map[string]string{
		"DEVNAME=/dev/loop0\nTYPE=ext4\n":              "ext4",
		"DEVNAME=/dev/sda\nPTTYPE=dos\n":               "unknown data, probably partitions",
		"DEVNAME=/dev/sda\nPTTYPE=gpt\nTYPE=xfs\n":     "xfs",
		"DEVNAME=/dev/sda\nUSAGE=raid\nTYPE=\n":        "unknown data, probably partitions",
		"DEVNAME=/dev/sda\nTYPE=LVM2_member\nX=TYPE=a": "LVM2_member",
	} {
		t.Run(out, func(t *testing.T) {
			if got := formatIn(out); got != want {
				t.Errorf("%q: %q", out, got)
			}
		})
	}
}

// A device that takes its time to be checked holds up its own pods, and no others: neither those with other local volumes, nor those that
// go.
func TestSlowDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mounter(t, cluster())
		checked, mounted := make(chan struct{}), make(chan error)
		if err := os.MkdirAll(m.local.shared("slow"), 0o750); err != nil {
			t.Fatal(err)
		}
		for _, uid := range []types.UID{"u1", "u2"} {
			go func() {
				_, err := m.local.take(t.Context(), uid, "slow", func(string) error { <-checked; return nil })
				mounted <- err
			}()
		}
		synctest.Wait()
		if _, err := m.local.take(t.Context(), "u3", "quick", func(string) error { return nil }); err != nil {
			t.Error(err)
		}
		if err := m.Remove(t.Context(), "u3"); err != nil {
			t.Error(err)
		}
		late, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := m.local.take(late, "u4", "slow", func(string) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		close(checked)
		if err := errors.Join(<-mounted, <-mounted); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(m.local.shared("slow")); err != nil {
			t.Error("it was let go of while pods had it:", err)
		}
		for _, uid := range []types.UID{"u1", "u2", "u4"} {
			if err := m.Remove(t.Context(), uid); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(m.local.shared("slow")); err == nil {
			t.Error("nobody has it, and it is not let go of")
		}
	})
}
