//go:build linux

package volume

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/test/vm"
)

// export has the guest's kernel serve /srv by NFS 4 on the loopback. That directory is what /srv is to the clients' root.
func export(t *testing.T) {
	t.Helper()
	const rpc = "/var/lib/nfs/rpc_pipefs"
	for _, dir := range []string{"/srv", "/etc", "/var/lib/nfs/v4recovery", rpc, "/proc/fs/nfsd", "/run"} {
		if err := os.MkdirAll(dir, 0o755); err != nil && !errors.Is(err, unix.ENOENT) { // of proc by the module
			t.Fatal(err)
		}
	}
	err := errors.Join(unix.Mount("tmpfs", "/srv", "tmpfs", 0, "mode=0777"), unix.Mount("nfsd", "/proc/fs/nfsd", "nfsd", 0, ""),
		os.WriteFile("/etc/exports", []byte("/srv *(rw,fsid=0,insecure,no_subtree_check,no_root_squash)\n"), 0o600),
		os.WriteFile("/var/lib/nfs/etab", nil, 0o600), os.WriteFile("/var/lib/nfs/rmtab", nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"exportfs -a", "rpc.mountd -N 2 -N 3", "rpc.nfsd -N 3 -G 10 -L 10 2"} {
		if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", line, err, out)
		}
	}
}

// Volumes of a real server: pods of one claim see the same files, one that only reads can't write, a new agent finds what is mounted,
// nothing is left behind, and a server that is gone keeps neither figures nor the end of a pod waiting for ever.
func TestNFSServer(t *testing.T) {
	if !vm.Run(t, vm.Config{Systemd: true, Modules: []string{"nfs", "nfsv4", "nfsd"}, Memory: 2048, Timeout: 8 * time.Minute}) {
		return
	}
	export(t)
	c := cluster()
	c.server["persistentvolumeclaims/ns/data"] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "c1"},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	c.server["persistentvolumes//pv"] = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: "c1"},
			MountOptions:           []string{"nfsvers=4.2", "timeo=50", "retrans=1"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "127.0.0.1", Path: "/"}}}}
	m := New(Config{Dir: "/var/lib/kubelet", Client: c, Node: "n1"})
	prepare := func(m *Mounter, uid types.UID, volume string) (*corev1.Pod, string) {
		p := pod(t, `{volumes: [{name: v, `+volume+`}]}`)
		p.UID = uid
		paths, err := m.Prepare(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return p, paths["v"]
	}
	const claim = "persistentVolumeClaim: {claimName: data}"
	p, writes := prepare(m, "u1", claim)
	_, reads := prepare(m, "u2", "nfs: {server: 127.0.0.1, path: /, readOnly: true}")
	if err := os.WriteFile(filepath.Join(writes, "note"), []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(reads, "note")); err != nil || string(text) != "hello" {
		t.Errorf("the other pod reads %q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(reads, "note"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("written by a pod that only reads: %v", err)
	}
	if u := m.Usage(t.Context(), p); len(u) != 1 || u[0].Claim != "data" || u[0].Size == 0 || u[0].Free == 0 {
		t.Errorf("usage %+v", u)
	}
	again := New(m.cfg) // as after a restart
	if _, path := prepare(again, "u1", claim); path != writes {
		t.Errorf("mounted at %s, and before at %s", path, writes)
	}
	if n := mountsOf(t); n != 2 {
		t.Errorf("%d mounts, want 2", n)
	}
	if err := again.Remove(t.Context(), "u2"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile("/srv/note"); err != nil || string(text) != "hello" {
		t.Errorf("after the end of a pod the server has %q, %v", text, err)
	}
	if err := os.WriteFile("/proc/fs/nfsd/threads", []byte("0"), 0o600); err != nil { // the server is gone
		t.Fatal(err)
	}
	if u := again.Usage(t.Context(), p); len(u) != 0 {
		t.Errorf("usage of a server that is gone: %+v", u)
	}
	if err := again.Remove(t.Context(), "u1"); err != nil {
		t.Error(err)
	}
	if n := mountsOf(t); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
	if left, _ := filepath.Glob("/var/lib/kubelet/pods/u*/volumes/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// mountsOf counts the mounts of NFS there are.
func mountsOf(t *testing.T) int {
	t.Helper()
	points, err := mountPoints()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range points {
		if strings.Contains(p, nfsPlugin) {
			n++
		}
	}
	return n
}
