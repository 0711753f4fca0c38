package scheduler

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func (w *world) patch(k resource.Kind, name, sub, data string) {
	w.Helper()
	ns := ""
	if k.Info().Namespaced {
		ns = "default"
	}
	if _, err := w.Patch(w.Context(), k, ns, name, client.Patch{Type: types.MergePatchType, Data: []byte(data), Sub: sub}); err != nil {
		w.Fatalf("patch %s: %v", name, err)
	}
}

func (w *world) remove(name string) {
	w.Helper()
	zero := int64(0)
	if err := w.Delete(w.Context(), kinds.Pods, "default", name, &metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		w.Fatalf("delete %s: %v", name, err)
	}
}

func (w *world) node(name string) string {
	return resource.Get(w.Read(), kinds.Pods, "default", name).Spec.NodeName
}

func (w *world) claim(name, class string) {
	w.create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
			Resources: corev1.VolumeResourceRequirements{Requests: quantity("1Gi")}}})
}

func quantity(s string) corev1.ResourceList {
	var l corev1.ResourceList
	must(yaml.Unmarshal([]byte("storage: "+s), &l))
	return l
}

// TestWakes parks a pod, changes one thing, and finds the pod bound at once: no time passes in between, so
// nothing but the change can have woken it.
func TestWakes(t *testing.T) {
	for _, test := range []struct {
		name   string
		there  []*corev1.Pod
		spec   string
		change func(w *world)
	}{
		{"node labelled", nil, "nodeSelector: {disk: ssd}",
			func(w *world) { w.patch(kinds.Nodes, "n1", "", `{"metadata":{"labels":{"disk":"ssd"}}}`) }},
		{"node added", nil, "nodeSelector: {disk: ssd}", func(w *world) { w.create(node("n3", "disk: ssd", "")) }},
		{"node grown", nil, "overhead: {cpu: 6}",
			func(w *world) { w.patch(kinds.Nodes, "n1", "status", `{"status":{"allocatable":{"cpu":"8"}}}`) }},
		{"room made", []*corev1.Pod{pod("x", "", "cpu=3", ""), pod("x2", "", "cpu=3", "")}, "overhead: {cpu: 2}",
			func(w *world) { w.remove("x") }},
		{"pod finished", []*corev1.Pod{pod("x", "", "cpu=3", ""), pod("x2", "", "cpu=3", "")}, "overhead: {cpu: 2}",
			func(w *world) { w.patch(kinds.Pods, "x", "status", `{"status":{"phase":"Succeeded"}}`) }},
		{"friend came", nil, affinity("podAffinity", "kubernetes.io/hostname", "app: x"),
			func(w *world) { w.create(pod("x", "app: x", "", "")) }},
		{"foe left", []*corev1.Pod{pod("x", "app: x", "", "nodeName: n1"), pod("x2", "app: x", "", "nodeName: n2")},
			affinity("podAntiAffinity", "kubernetes.io/hostname", "app: x"), func(w *world) { w.remove("x") }},
		{"foe relabelled", []*corev1.Pod{pod("x", "app: x", "", "nodeName: n1"), pod("x2", "app: x", "", "nodeName: n2")},
			affinity("podAntiAffinity", "kubernetes.io/hostname", "app: x"), func(w *world) {
				w.patch(kinds.Pods, "x2", "",
					`{"metadata":{"labels":{"app":"z"}}}`)
			}},
		{"who kept it away left", []*corev1.Pod{pod("x", "", "", "nodeName: n1\n"+affinity("podAntiAffinity", "pool", "app: a"))}, "",
			func(w *world) { w.remove("x") }},
		{"balance restored", []*corev1.Pod{pod("x", "app: a", "", "nodeName: n1")},
			hardSpread("kubernetes.io/hostname", 1, "nodeAffinityPolicy: Ignore") + "\nnodeSelector: {zone: a}",
			func(w *world) { w.create(pod("x2", "app: a", "", "nodeName: n2")) }},
		{"class made known", nil, "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]", func(w *world) {
			mode := storagev1.VolumeBindingWaitForFirstConsumer
			w.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Provisioner: "x.io/y", VolumeBindingMode: &mode})
			w.claim("c", "later")
			synctest.Wait()
			c := resource.Get(w.Read(), kinds.PersistentVolumeClaims, "default", "c")
			if got := c.Annotations[selectedNode]; got == "" {
				w.Error("no node was selected for the claim")
			}
			w.patch(kinds.PersistentVolumeClaims, "c", "",
				`{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":"pv"}}`)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, true)
				w.create(node("n1", "zone: a, pool: p", ""))
				w.create(node("n2", "zone: b, pool: p", ""))
				for _, p := range test.there {
					w.create(p)
				}
				synctest.Wait()
				w.create(pod("p", "app: a", "", test.spec))
				synctest.Wait()
				if n := w.node("p"); n != "" {
					t.Fatalf("bound to %s at once", n)
				}
				began := time.Now()
				test.change(w)
				synctest.Wait()
				if w.node("p") == "" {
					p := resource.Get(w.Read(), kinds.Pods, "default", "p")
					t.Fatalf("still pending: %+v", p.Status.Conditions)
				}
				if time.Since(began) != 0 {
					t.Errorf("%v passed", time.Since(began))
				}
			})
		})
	}
}

// TestFailureBeforeABinding tells what becomes of a decided pod whose claim won't be bound, in upstream's words.
func TestFailureBeforeABinding(t *testing.T) {
	for want, change := range map[string]func(w *world){
		`failed to check provisioning pvc: persistentvolumeclaims "default/c" not found`: func(w *world) {
			if err := w.Delete(w.Context(), kinds.PersistentVolumeClaims, "default", "c", nil); err != nil {
				w.Fatal(err)
			}
		},
		`provisioning failed for PVC "c"`: func(w *world) {
			w.patch(kinds.PersistentVolumeClaims, "c", "",
				`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":null,"a":"b"}}}`)
		},
		`selectedNode annotation reset for PVC "c"`: func(w *world) {
			w.patch(kinds.PersistentVolumeClaims, "c", "", `{"metadata":{"annotations":null}}`)
		},
		"context deadline exceeded": func(w *world) { time.Sleep(11 * time.Minute) },
		`pv "pv" node affinity doesn't match node "n1": no matching NodeSelectorTerms`: func(w *world) {
			made(w, &corev1.PersistentVolume{}, `{metadata: {name: pv}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
  storageClassName: later, local: {path: /x}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [
  {key: kubernetes.io/hostname, operator: In, values: [n2]}]}]}}}}`)
			w.patch(kinds.PersistentVolumeClaims, "c", "",
				`{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":"pv"}}`)
		},
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, true)
				w.create(node("n1", "", ""))
				mode := storagev1.VolumeBindingWaitForFirstConsumer
				w.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Provisioner: "x.io/y", VolumeBindingMode: &mode})
				w.claim("c", "later")
				w.create(pod("p", "", "", "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]"))
				synctest.Wait()
				change(w)
				synctest.Wait()
				var told []string
				for _, e := range resource.List(w.Read(), kinds.Events, "default") {
					told = append(told, e.Reason+": "+e.Message)
				}
				if !slices.Contains(told, `FailedScheduling: running PreBind plugin "VolumeBinding": binding volumes: `+want) {
					t.Errorf("%s: events %q", want, told)
				}
			})
		})
	}
}

// TestStaticVolume gives a waiting claim a volume that its node can reach.
func TestStaticVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		w.create(node("n1", "zone: a", ""))
		w.create(node("n2", "zone: b", ""))
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		w.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: byHand, VolumeBindingMode: &mode})
		pv := &corev1.PersistentVolume{}
		must(yaml.UnmarshalStrict([]byte(
			`{metadata: {name: pv}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: local, volumeMode: Filesystem,
  persistentVolumeReclaimPolicy: Retain, local: {path: /x},
		nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [b]}]}]}}}}`), pv))
		w.create(pv)
		w.claim("c", "local")
		w.create(pod("p", "", "", "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]"))
		synctest.Wait()
		p := resource.Get(w.Read(), kinds.Pods, "default", "p")
		want := "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. " +
			"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
		if c := find(p, corev1.PodScheduled); c == nil || c.Message != want {
			t.Fatalf("conditions %+v", p.Status.Conditions)
		}
		w.patch(kinds.PersistentVolumes, "pv", "status", `{"status":{"phase":"Available"}}`)
		synctest.Wait()
		ref := resource.Get(w.Read(), kinds.PersistentVolumes, "", "pv").Spec.ClaimRef
		if ref == nil || ref.Name != "c" {
			t.Fatalf("the volume was given to %v", ref)
		}
		if n := w.node("p"); n != "" {
			t.Fatalf("bound to %s before its volume", n)
		}
		w.patch(kinds.PersistentVolumeClaims, "c", "",
			`{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":"pv"}}`)
		synctest.Wait()
		if n := w.node("p"); n != "n2" {
			t.Fatalf("on %q", n)
		}
	})
}
