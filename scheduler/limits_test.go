package scheduler

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// drivenClaim makes a claim that is bound to a volume of the driver d.io.
func (w *world) drivenClaim(name, owner string) { w.drivenClaimOf(name, owner, "ReadWriteOnce") }

func (w *world) drivenClaimOf(name, owner, mode string) {
	w.Helper()
	size := `accessModes: [` + mode + `]`
	made(w, &corev1.PersistentVolume{}, "%s", `{metadata: {name: pv-`+name+`}, spec: {csi: {driver: d.io, volumeHandle: `+name+`}, `+
		`capacity: {storage: 1Gi}, `+size+`}}`)
	made(w, &corev1.PersistentVolumeClaim{}, "%s", `{metadata: {namespace: default, name: `+name+`, `+owner+`annotations: {`+
		bindCompleted+`: 'yes'}}, spec: {volumeName: pv-`+name+`, storageClassName: '', resources: {requests: {storage: 1Gi}}, `+size+`}}`)
}

// TestLimitsAreFollowed has pods wait for room among a node's volumes, and come as soon as there is some: when its CSINode has a higher
// limit, when a pod has gone and its volume is detached. Claims of pods' own count as others do, and no pod leaves when the limit falls.
func TestLimitsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		w.create(node("n1", "", ""))
		limit := func(n string) {
			w.patch(kinds.CSINodes, "n1", "", `{"spec":{"drivers":[{"name":"d.io","nodeID":"x","allocatable":{"count":`+n+`}}]}}`)
			synctest.Wait()
		}
		made(w, &storagev1.CSINode{}, `{metadata: {name: n1}, spec: {drivers: [{name: d.io, nodeID: x, allocatable: {count: 1}}]}}`)
		place := func(name string, there bool) {
			t.Helper()
			synctest.Wait()
			if got := w.node(name); (got != "") != there {
				t.Errorf("%s is on %q: %+v", name, got, resource.Get(w.Read(), kinds.Pods, "default", name).Status.Conditions)
			}
		}
		uses := func(name string) *corev1.Pod {
			return pod(name, "", "", "volumes: [{name: v, persistentVolumeClaim: {claimName: "+name+"}}]")
		}
		w.drivenClaim("a", "")
		w.create(uses("a"))
		place("a", true)
		made(w, &storagev1.VolumeAttachment{},
			`{metadata: {name: va}, spec: {attacher: d.io, nodeName: n1, source: {persistentVolumeName: pv-a}}}`)
		own := pod("b", "", "", "volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], "+
			"resources: {requests: {storage: 1Gi}}}}}}]")
		uid := w.create(own).GetUID()
		w.drivenClaim("b-v", `ownerReferences: [{apiVersion: v1, kind: Pod, name: b, controller: true, uid: `+string(uid)+`}], `)
		place("b", false)
		c := find(resource.Get(w.Read(), kinds.Pods, "default", "b"), corev1.PodScheduled)
		if c == nil || !strings.Contains(c.Message, "node(s) exceed max volume count") {
			t.Errorf("%+v", c)
		}
		limit("2")
		place("b", true)
		w.drivenClaim("c", "")
		w.create(uses("c"))
		place("c", false)
		w.remove("a")
		place("c", false) // its volume is not detached yet
		if err := w.Delete(t.Context(), kinds.VolumeAttachments, "", "va", &metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		place("c", true)
		limit("0")
		place("b", true)
		w.drivenClaim("d", "")
		w.create(uses("d"))
		place("d", false)
		w.patch(kinds.CSINodes, "n1", "", `{"spec":{"drivers":[{"name":"d.io","nodeID":"x"}]}}`)
		place("d", true)
	})
}

// TestOnePodsClaimIsTaken has a pod wait for a claim that only one may use, until that has gone, or take it from one of less importance.
func TestOnePodsClaimIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		w.create(node("n1", "", ""))
		w.create(node("n2", "", ""))
		w.drivenClaimOf("c", "", "ReadWriteOncePod")
		const uses = "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]\npriority: "
		w.create(pod("first", "", "", uses+"5"))
		synctest.Wait()
		w.create(pod("second", "", "", uses+"5"))
		synctest.Wait()
		if w.node("first") == "" || w.node("second") != "" {
			t.Fatalf("on %q and %q", w.node("first"), w.node("second"))
		}
		w.create(pod("third", "", "", uses+"9"))
		synctest.Wait()
		p := resource.Get(w.Read(), kinds.Pods, "default", "first")
		if p != nil && p.DeletionTimestamp == nil {
			t.Fatalf("it keeps the claim: %+v", resource.Get(w.Read(), kinds.Pods, "default", "third").Status)
		}
		if p != nil {
			w.remove("first")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.node("third") == "" || w.node("second") != "" {
			t.Fatalf("then on %q and %q", w.node("third"), w.node("second"))
		}
		w.remove("third")
		synctest.Wait()
		if w.node("second") == "" {
			t.Error("nobody has the claim, and it waits")
		}
	})
}
