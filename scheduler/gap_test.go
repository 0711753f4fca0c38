package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// TestGapForgetsWhatIsOver has a feed that begins anew: what was assumed for claims and volumes that went meanwhile, or have what they were
// to get, holds nothing any more.
func TestGapForgetsWhatIsOver(t *testing.T) {
	w := start(t, false)
	log := slog.New(slog.DiscardHandler)
	r := newRunner(Config{Parallel: 1}, loop.Env{Client: w.Local, Log: log, Now: time.Now}, log)
	r.st.profiles[corev1.DefaultSchedulerName] = &Profile{Name: corev1.DefaultSchedulerName}
	claim := func(name string) *resourcev1.ResourceClaim {
		return made(w, &resourcev1.ResourceClaim{}, `{metadata: {name: %s, namespace: default},
  spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}`, name)
	}
	open, had := claim("open"), resource.Clone(claim("had"))
	had.Status.Allocation = &resourcev1.AllocationResult{}
	if _, err := client.UpdateStatus(t.Context(), w, kinds.ResourceClaims, had); err != nil {
		t.Fatal(err)
	}
	p := w.create(pod("p", "", "", "")).(*corev1.Pod)
	a := r.st.inventory.assumed
	for _, uid := range []types.UID{open.UID, had.UID, "gone", extendedClaimUID(p.UID), extendedClaimUID("gone")} {
		a[uid] = &resourcev1.AllocationResult{}
	}
	r.st.volumes.assumed["gone"] = key{}
	r.apply(client.Batch{Reset: true, Read: w.Read()})
	if len(a) != 2 || a[open.UID] == nil || a[extendedClaimUID(p.UID)] == nil || len(r.st.volumes.assumed) != 0 {
		t.Error(fmt.Sprint(slices.Sorted(maps.Keys(a)), r.st.volumes.assumed))
	}
}

// TestStateFromBeforeTheBinding has the feed tell of a pod as it was before the scheduler bound it, once the binding is acknowledged: it is
// not scheduled a second time, which would take its devices from it.
func TestStateFromBeforeTheBinding(t *testing.T) {
	w := start(t, false)
	log := slog.New(slog.DiscardHandler)
	r := newRunner(Config{Parallel: 1}, loop.Env{Client: w.Local, Log: log, Now: time.Now}, log)
	r.st.profiles[corev1.DefaultSchedulerName] = &Profile{Name: corev1.DefaultSchedulerName}
	w.create(node("n1", "4", ""))
	p := w.create(pod("p", "", "", "")).(*corev1.Pod)
	r.apply(client.Batch{Reset: true, Read: w.Read()})
	bound := r.st.tasks[keyOf(p)]
	r.q.remove(bound)
	r.st.addPod(bound, 0)
	bound.stage = placed
	late := resource.Clone(p)
	late.Labels, late.Generation = map[string]string{"told": "late"}, p.Generation+1
	for name, b := range map[string]client.Batch{
		"change": {Read: w.Read(), Changes: []client.Change{{Kind: kinds.Pods, Old: p, New: late}}},
		"gap":    {Read: w.Read(), Reset: true},
	} {
		t.Run(name, func(t *testing.T) {
			r.apply(b)
			if bound.stage != placed || bound.node != 0 {
				t.Errorf("stage %v, node %d", bound.stage, bound.node)
			}
		})
	}
}

// TestOldNews has the feed tell once more of a pod that was gone when it began anew: nobody would say again that it is.
func TestOldNews(t *testing.T) {
	w := start(t, false)
	log := slog.New(slog.DiscardHandler)
	r := newRunner(Config{Parallel: 1}, loop.Env{Client: w.Local, Log: log, Now: time.Now}, log)
	r.st.profiles[corev1.DefaultSchedulerName] = &Profile{Name: corev1.DefaultSchedulerName}
	p := w.create(pod("p", "", "", "")).(*corev1.Pod)
	r.apply(client.Batch{Reset: true, Read: w.Read()})
	if err := w.Delete(t.Context(), kinds.Pods, p.Namespace, p.Name, nil); err != nil {
		t.Fatal(err)
	}
	r.apply(client.Batch{Reset: true, Read: w.Read()})
	r.apply(client.Batch{Read: w.Read(), Changes: []client.Change{{Kind: kinds.Pods, Old: p, New: p}}})
	if len(r.st.tasks) > 0 {
		t.Error("it is there again")
	}
}

// TestOwnClaimIsKnown has a pod that could not be bound after a claim was made for its extended resources, of which the feed tells late:
// the scheduler knows of it meanwhile, and makes no second one.
func TestOwnClaimIsKnown(t *testing.T) {
	w := start(t, false)
	log := slog.New(slog.DiscardHandler)
	r := newRunner(Config{Parallel: 1}, loop.Env{Client: w.Local, Log: log, Now: time.Now}, log)
	r.st.profiles[corev1.DefaultSchedulerName] = &Profile{Name: corev1.DefaultSchedulerName}
	p := w.create(asking("p", "example.com/gpu", 1)).(*corev1.Pod)
	r.apply(client.Batch{Reset: true, Read: w.Read()})
	task := r.st.tasks[keyOf(p)]
	claim := &resourcev1.ResourceClaim{}
	claim.Namespace, claim.Name, claim.UID = p.Namespace, "p-extended-resources-x", "made"
	task.devices = &devicePlan{made: claim}
	r.devices.wrote(task, "n1", errors.New("refused"))
	if r.st.inventory.leftover(task) != claim {
		t.Error("it is not known")
	}
	r.apply(client.Batch{Read: w.Read(), Changes: []client.Change{{Kind: kinds.ResourceClaims, Old: claim}}})
	if r.st.inventory.leftover(task) != nil {
		t.Error("it is known for ever")
	}
}
