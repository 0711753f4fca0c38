package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// TestPodGoesWithoutItsVolumes deletes pods that wait for objects that are not there.
func TestPodGoesWithoutItsVolumes(t *testing.T) {
	live(t, func(r *rig) {
		sources := map[string]corev1.VolumeSource{
			"configmap": {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}}},
			"secret":    {Secret: &corev1.SecretVolumeSource{SecretName: "none"}},
			"projected": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}}}}}},
			"claim": {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "none"}},
		}
		for name, source := range sources {
			r.pod(name, func(p *corev1.Pod) {
				uses("")(p)
				p.Spec.Volumes[0].VolumeSource = source
			}, "c")
		}
		for name := range sources {
			r.until("an event says what "+name+" waits for", func() bool {
				return slices.ContainsFunc(resource.List(r.Read(), kinds.Events, "d"), func(e *corev1.Event) bool {
					return e.InvolvedObject.Name == name && e.Reason == "FailedMount" && strings.Contains(e.Message, `"none" not found`)
				})
			})
			if err := r.Delete(t.Context(), kinds.Pods, "d", name, &metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			r.until(name+" is gone", func() bool { return r.get(name) == nil })
		}
	})
}

// TestPodGoesWhileTheAgentIsAway deletes pods with volumes of a driver while nobody looks: they are taken down when the agent is back, also
// if nothing tells of the pod any more but the disk. What was written stays, and a pod that is there keeps its volume,
// which it has twice; a static pod goes on.
func TestPodGoesWhileTheAgentIsAway(t *testing.T) {
	live(t, func(r *rig) {
		create(r, kinds.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d.csi"},
			Spec: storagev1.CSIDriverSpec{AttachRequired: new(bool)}})
		d := r.driver()
		r.stop()
		r.cfg.StaticDir = t.TempDir()
		manifest := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "d", "name": "static"},
			"spec": {"containers": [{"name": "s", "image": "img"}]}}`
		if err := os.WriteFile(filepath.Join(r.cfg.StaticDir, "static.json"), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		r.start()
		mirror := r.reaches("static-n", corev1.PodRunning).UID
		dirs := map[string]string{}
		for _, name := range []string{"ends", "forced", "stays"} {
			r.claim(name)
			edit := uses(name)
			if name == "stays" { // by two volumes
				edit = func(p *corev1.Pod) {
					uses(name)(p)
					again := *p.Spec.Volumes[0].DeepCopy()
					again.Name = "again"
					p.Spec.Volumes = append(p.Spec.Volumes, again)
					p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
						corev1.VolumeMount{Name: "again", MountPath: "/again"})
				}
			}
			r.pod(name, edit, "c-"+name)
			dirs[name] = filepath.Join(r.cfg.Dir, "pods", string(r.reaches(name, corev1.PodRunning).UID))
		}
		r.stop()
		for name, grace := range map[string]*int64{"ends": nil, "forced": new(int64)} {
			if err := r.Delete(t.Context(), kinds.Pods, "d", name, &metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
				t.Fatal(err)
			}
		}
		r.start()
		for _, name := range []string{"ends", "forced"} {
			r.until("the volume of the pod that "+name+" is taken down", func() bool {
				return r.get(name) == nil && d.Published(name) == 0 && !exists(dirs[name])
			})
		}
		if p := r.reaches("static-n", corev1.PodRunning); p.UID != mirror || p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("the static pod: %+v", p.Status)
		}
		at := map[string]string{}
		for _, m := range r.rt.newest("c-stays").Mounts {
			at[m.ContainerPath] = m.HostPath
		}
		if at["/data"] == "" || at["/again"] == "" {
			t.Errorf("the pod that has the volume twice: %v", at)
		}
		if d.Published("stays") != 1 || r.get("stays").Status.Phase != corev1.PodRunning || len(d.Breaches()) > 0 {
			t.Errorf("the pod that stays: published %d times, breaches %v", d.Published("stays"), d.Breaches())
		}
	})
}
