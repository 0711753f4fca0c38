package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the node's mount is asked for, by the pod's volume or by the claim's.
func TestNFS(t *testing.T) {
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >%s/asked\n", bin)
	if err := os.WriteFile(filepath.Join(bin, "mount"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for _, tt := range []struct {
		name, volume, options string
		pv                    *corev1.NFSVolumeSource
		want                  string // DIR stands for the directory
	}{
		{"inline", `nfs: {server: nfs.example.com, path: /srv}`, "", nil, "-t nfs -- nfs.example.com:/srv DIR/v"},
		{"inline, to be read", `nfs: {server: 10.0.0.1, path: /, readOnly: true}`, "", nil, "-t nfs -o ro -- 10.0.0.1:/ DIR/v"},
		{"IPv6", `nfs: {server: "fd00::1", path: /srv}`, "", nil, "-t nfs -- [fd00::1]:/srv DIR/v"},
		{"a server like an option", `nfs: {server: "-T/srv", path: /x}`, "", nil, "-t nfs -- -T/srv:/x DIR/v"},
		{"claim", `persistentVolumeClaim: {claimName: data}`, "nfsvers=4.1,hard timeo=600",
			&corev1.NFSVolumeSource{Server: "s", Path: "/a"}, "-t nfs -o nfsvers=4.1,hard,timeo=600 -- s:/a DIR/pv"},
		{"claim, to be read by the pod", `persistentVolumeClaim: {claimName: data, readOnly: true}`, "hard",
			&corev1.NFSVolumeSource{Server: "s", Path: "/a"}, "-t nfs -o hard,ro -- s:/a DIR/pv"},
		{"claim, to be read by all", `persistentVolumeClaim: {claimName: data}`, "",
			&corev1.NFSVolumeSource{Server: "s", Path: "/a", ReadOnly: true}, "-t nfs -o ro -- s:/a DIR/pv"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := cluster()
			if tt.pv != nil {
				c.server["persistentvolumeclaims/ns/data"] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "c1"},
					Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
					Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
				c.server["persistentvolumes//pv"] = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
					Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: "c1"}, MountOptions: strings.Fields(tt.options),
						PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: tt.pv}}}
			}
			paths, err := mounter(t, c).Prepare(t.Context(), pod(t, `{volumes: [{name: v, `+tt.volume+`}]}`))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(bin, "asked"))
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Dir(paths["v"])
			if got := strings.TrimSpace(strings.ReplaceAll(string(text), dir, "DIR")); got != tt.want {
				t.Errorf("mount %s\nwant  %s", got, tt.want)
			}
			if !strings.HasSuffix(dir, "/pods/u1/volumes/kubernetes.io~nfs") {
				t.Errorf("mounted below %s", dir)
			}
		})
	}
}

// A mount that fails says why, and leaves no directory in which a pod might write.
func TestNFSFails(t *testing.T) {
	bin := t.TempDir()
	const script = "#!/bin/sh\necho 'mount.nfs: access denied by server' >&2\nexit 32\n"
	if err := os.WriteFile(filepath.Join(bin, "mount"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	m := mounter(t, cluster())
	_, err := m.Prepare(t.Context(), pod(t, `{volumes: [{name: v, nfs: {server: s, path: /}}]}`))
	const want = `MountVolume.SetUp failed for volume "v" : mount: exit status 32: mount.nfs: access denied by server`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if left, _ := filepath.Glob(filepath.Join(m.cfg.Dir, "pods/u1/volumes/kubernetes.io~nfs/*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
