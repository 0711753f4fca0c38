package scheduler

import (
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
