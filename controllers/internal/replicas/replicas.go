// Package replicas holds what ReplicaSets and ReplicationControllers have in common: a number of pods that are alike.
package replicas

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Burst bounds how many pods one pass creates or deletes, so that one set can't hold the engine for long.
const Burst = 500

// A Set is an object that wants a number of pods.
type Set struct {
	Object   resource.Object
	Kind     resource.Kind
	Replicas int32
	MinReady int32 // seconds
	Template *corev1.PodTemplateSpec
	Company  []*corev1.Pod // pods of other sets that do the same work: where many of all these run, one is less of a loss
}

// A Todo is one pass's difference between wish and world.
type Todo struct {
	Create int
	Remove []*corev1.Pod
	Again  time.Duration
}

// Plan is pure: same set, same pods, same time, same answer.
func Plan(s Set, owned []*corev1.Pod, now time.Time) (t Todo) {
	alive := slices.DeleteFunc(slices.Clone(owned), func(p *corev1.Pod) bool { return !pods.Active(p) })
	switch surplus := len(alive) - int(s.Replicas); {
	case s.Object.GetDeletionTimestamp() != nil: // its pods go with it, by garbage collection
	case surplus < 0:
		t.Create, t.Again = afterRefusals(owned, min(-surplus, Burst), now)
	case surplus > 0:
		pods.CheapestFirst(alive, slices.Concat(alive, s.Company), now)
		t.Remove = alive[:min(surplus, Burst)]
	}
	if n := t.Create + len(t.Remove); n == Burst {
		t.Again = loop.Now
	}
	if wait := soonestAvailable(s, alive, now); wait > 0 && (t.Again == 0 || wait < t.Again) {
		t.Again = wait
	}
	return t
}

// Pauses before more pods are made in the place of those that nodes refused, and how many are then made at once.
const (
	firstPause  = time.Second
	longestStop = 5 * time.Minute
	fewPods     = 10
)

// afterRefusals returns the number of missing pods to make now, or the time to wait with all. A node that refuses a pod leaves
// it failed with no container begun; the scheduler may choose that node again and again. Every round that was refused since
// the last pod that a node took doubles the pause.
//
// Unlike Kubernetes, where only the rate of requests limits how many pods are made in vain.
func afterRefusals(owned []*corev1.Pod, missing int, now time.Time) (create int, wait time.Duration) {
	var taken, last time.Time
	for _, p := range owned {
		if p.Status.Phase != corev1.PodFailed && p.Status.StartTime != nil && p.CreationTimestamp.After(taken) {
			taken = p.CreationTimestamp.Time
		}
	}
	refused := 0
	for _, p := range owned {
		made := p.CreationTimestamp.Time
		if p.Status.Phase == corev1.PodFailed && len(p.Status.ContainerStatuses) == 0 && !made.Before(taken) && now.Sub(made) < 2*longestStop {
			refused++
			if made.After(last) {
				last = made
			}
		}
	}
	if refused == 0 {
		return missing, 0
	}
	few := min(missing, fewPods)
	pause := min(firstPause<<min(refused/few, 10), longestStop)
	if left := last.Add(pause).Sub(now); left > 0 {
		return 0, left
	}
	return few, 0
}

// soonestAvailable returns the time until the next ready pod has been ready for minReadySeconds: nothing else
// would wake the set then.
func soonestAvailable(s Set, alive []*corev1.Pod, now time.Time) (wait time.Duration) {
	for _, p := range alive {
		left := pods.UntilAvailable(p, s.MinReady, now)
		if left > 0 && (wait == 0 || left < wait) {
			wait = left
		}
	}
	return wait
}

// Act creates and deletes pods and returns the first refusal.
func Act(ctx context.Context, c *loop.Ctx, s Set, t Todo) error {
	_, err := loop.Batch(t.Create, func(int) error {
		return pods.Create(ctx, c, s.Kind, s.Object, pods.FromTemplate(s.Kind, s.Object, s.Template))
	})
	if err != nil {
		return err
	}
	_, err = loop.All(len(t.Remove), func(i int) error { return pods.Delete(ctx, c, s.Kind, s.Object, t.Remove[i]) })
	return err
}

// Counts are the observed numbers; what a pass did shows in the next.
type Counts struct{ Replicas, FullyLabeled, Ready, Available, Terminating int32 }

// Count sums up the pods of a set.
func Count(s Set, owned []*corev1.Pod, now time.Time) (n Counts) {
	template := labels.SelectorFromSet(s.Template.Labels)
	for _, p := range owned {
		switch {
		case p.DeletionTimestamp != nil && !core.Terminal(p):
			n.Terminating++
			continue
		case !pods.Active(p):
			continue
		}
		n.Replicas++
		if template.Matches(labels.Set(p.Labels)) {
			n.FullyLabeled++
		}
		if pods.Ready(p) {
			n.Ready++
			if pods.UntilAvailable(p, s.MinReady, now) == 0 {
				n.Available++
			}
		}
	}
	return n
}

// FailureReason names what was refused.
func (t Todo) FailureReason() string {
	if t.Create == 0 {
		return "FailedDelete"
	}
	return "FailedCreate"
}
