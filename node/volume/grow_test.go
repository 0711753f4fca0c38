package volume

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/test/need"
)

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse(size)}
}

// sized makes the claim ask for a size and have one, and the volume be of a third.
func (r *blockRig) sized(asks, has, is string) {
	claim := r.claim().DeepCopy()
	claim.Namespace = "ns"
	claim.Spec.Resources.Requests, claim.Status.Capacity = storage(asks), storage(has)
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimResizing}}
	r.c.server["persistentvolumeclaims/ns/data"] = claim
	r.pv.Spec.Capacity = storage(is)
}

func (r *blockRig) claim() *corev1.PersistentVolumeClaim {
	return r.c.server["persistentvolumeclaims/ns/data"].(*corev1.PersistentVolumeClaim)
}

// TestDeviceGrows follows a local volume whose device somebody makes larger, and says so in the PersistentVolume: a pod has all of it
// without a restart.
func TestDeviceGrows(t *testing.T) {
	need.MayResize(t)
	deviceGrows(t)
}

func deviceGrows(t *testing.T) {
	r := newBlockRig(t)
	r.sized("64Mi", "32Mi", "64Mi")
	path := r.mount("u1")
	back, err := exec.Command("losetup", "-n", "-O", "BACK-FILE", r.pv.Spec.Local.Path).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(strings.TrimSpace(string(back)), 64<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("losetup", "-c", r.pv.Spec.Local.Path).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	r.look(false)
	if u, _ := fileSystem(path); u.Size < 48<<20 {
		t.Errorf("the file system has %d bytes", u.Size)
	}
	if got := r.claim().Status.Capacity.Storage().String(); got != "64Mi" {
		t.Errorf("the claim has %s", got)
	}
	r.remove("u1")
}

// look looks after the pod's volume; again: it wants to be looked after once more.
func (r *blockRig) look(again bool) {
	r.t.Helper()
	r.m.Look("u1")
	p := pod(r.t, `{volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}`)
	if next, err := r.m.Refresh(r.t.Context(), p); err != nil || (next > 0) != again {
		r.t.Errorf("look again in %v, %v", next, err)
	}
}

// TestLocalGrows has claims of local volumes follow what these become, and nobody look again once they have what they ask for. What a tool
// can't do is told, and tried again.
func TestLocalGrows(t *testing.T) {
	r := newBlockRig(t)
	device := r.pv.Spec.Local.Path
	r.mount("u1")
	for _, c := range []struct {
		name, asks, has, is, path, by, want string
		again                               bool
	}{
		{"as it is", "1Gi", "1Gi", "1Gi", t.TempDir(), "", "1Gi", false},
		{"nobody has enlarged it", "2Gi", "1Gi", "1Gi", t.TempDir(), "", "1Gi", true},
		{"a directory", "2Gi", "1Gi", "2Gi", t.TempDir(), "", "2Gi", false},
		{"in part", "3Gi", "1Gi", "2Gi", t.TempDir(), "", "2Gi", false},
		{"it is a device, and nothing of it is mounted", "2Gi", "1Gi", "2Gi", loopDevice(t), "", "1Gi", true},
		{"of kloop's own", "2Gi", "1Gi", "2Gi", t.TempDir(), localvolume.Provisioner, "1Gi", false},
		{"of another's", "2Gi", "1Gi", "2Gi", t.TempDir(), "example.com/x", "2Gi", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.sized(c.asks, c.has, c.is)
			r.pv.Spec.Local.Path, r.pv.Annotations = c.path, map[string]string{provisionedBy: c.by}
			r.look(c.again)
			s := r.claim().Status
			if got := s.Capacity.Storage().String(); got != c.want || (len(s.Conditions) == 0) != (c.want != c.has) {
				t.Errorf("the claim has %s, and says %v", got, s.Conditions)
			}
		})
	}
	r.pv.Spec.Local.Path = device
	r.remove("u1")
}
