package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// TestLocalVolumesOfAGroup places the pods of a StatefulSet, each with a claim of its own, on nodes that have local volumes: together or
// apart, as they ask, one after the other or all at once.
func TestLocalVolumesOfAGroup(t *testing.T) {
	for _, kind := range []string{"podAffinity", "podAntiAffinity"} {
		for _, parallel := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, " parallel ", parallel), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { localVolumesOfAGroup(t, kind, parallel) })
			})
		}
	}
}

func localVolumesOfAGroup(t *testing.T, kind string, parallel bool) {
	w, mode := start(t, true), storagev1.VolumeBindingWaitForFirstConsumer
	w.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: byHand, VolumeBindingMode: &mode})
	const pods = 3
	for i := range pods {
		name := fmt.Sprint("n", i)
		w.create(node(name, "", ""))
		for j := range pods {
			v := made(w, &corev1.PersistentVolume{}, `{metadata: {name: %s-%d}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
  storageClassName: local, local: {path: /x}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [
  {key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}}}`, name, j, name)
			w.patch(kinds.PersistentVolumes, v.Name, "status", `{"status":{"phase":"Available"}}`)
		}
	}
	for i := range pods {
		claim := fmt.Sprint("c", i)
		w.claim(claim, "local")
		w.create(pod(fmt.Sprint("s-", i), "app: s", "", affinity(kind, "kubernetes.io/hostname", "app: s")+
			"\nvolumes: [{name: v, persistentVolumeClaim: {claimName: "+claim+"}}]"))
		if !parallel || i == pods-1 {
			for range pods {
				synctest.Wait()
				w.bindVolumes()
			}
		}
	}
	synctest.Wait()
	on := map[string]bool{}
	for i := range pods {
		name := w.node(fmt.Sprint("s-", i))
		on[name] = true
		c := resource.Get(w.Read(), kinds.PersistentVolumeClaims, "default", fmt.Sprint("c", i))
		if name == "" || !strings.HasPrefix(c.Spec.VolumeName, name+"-") {
			t.Errorf("s-%d is on %q, its volume is %s", i, name, c.Spec.VolumeName)
		}
	}
	if want := map[string]int{"podAffinity": 1, "podAntiAffinity": pods}[kind]; len(on) != want {
		t.Errorf("on %v", slices.Sorted(maps.Keys(on)))
	}
}

// bindVolumes is the part of the loop that binds volumes: claims get those that were given to them.
func (w *world) bindVolumes() {
	for _, v := range resource.List(w.Read(), kinds.PersistentVolumes, "") {
		if ref := v.Spec.ClaimRef; ref != nil {
			w.patch(kinds.PersistentVolumeClaims, ref.Name, "",
				`{"metadata":{"annotations":{"`+bindCompleted+`":"yes"}},"spec":{"volumeName":"`+v.Name+`"}}`)
		}
	}
}
