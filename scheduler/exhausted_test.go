package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// TestExhaustedStorage: a driver's storage has no room at first, or has all of it. A provisioner gives the node back that was chosen for a
// claim, and it is chosen anew; a claim that is bound at once is waited for. In the end the pod runs.
func TestExhaustedStorage(t *testing.T) {
	const chosen = "volume.kubernetes.io/selected-node"
	for _, c := range []struct {
		name  string
		mode  storagev1.VolumeBindingMode
		tries int // without room
	}{
		{"late binding, unlimited", storagev1.VolumeBindingWaitForFirstConsumer, 0},
		{"late binding, exhausted", storagev1.VolumeBindingWaitForFirstConsumer, 3},
		{"immediate binding, exhausted", storagev1.VolumeBindingImmediate, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, true)
				w.create(node("n1", "", ""))
				w.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "driven"}, Provisioner: "x.io/y", VolumeBindingMode: &c.mode})
				w.claim("c", "driven")
				w.create(pod("p", "", "", "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]"))
				late := c.mode == storagev1.VolumeBindingWaitForFirstConsumer
				for try := 0; ; try++ {
					time.Sleep(6 * time.Minute) // longer than any pause
					synctest.Wait()
					got := resource.Get(w.Read(), kinds.PersistentVolumeClaims, "default", "c").Annotations[chosen]
					if (got == "n1") != late || w.node("p") != "" {
						t.Fatalf("try %d: chosen %q, the pod is on %q", try, got, w.node("p"))
					}
					if try == c.tries {
						break
					}
					w.patch(kinds.PersistentVolumeClaims, "c", "", `{"metadata":{"annotations":{"`+chosen+`":null}}}`)
				}
				w.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
					StorageClassName: "driven", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Capacity: corev1.ResourceList{"storage": apiresource.MustParse("1Gi")},
					PersistentVolumeSource: corev1.PersistentVolumeSource{
						CSI: &corev1.CSIPersistentVolumeSource{Driver: "x.io", VolumeHandle: "v"}}}})
				w.patch(kinds.PersistentVolumeClaims, "c", "",
					`{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":"v"}}`)
				w.patch(kinds.PersistentVolumeClaims, "c", "status", `{"status":{"phase":"Bound"}}`)
				time.Sleep(6 * time.Minute)
				synctest.Wait()
				if n := w.node("p"); n != "n1" {
					t.Errorf("the pod is on %q", n)
				}
			})
		})
	}
}
