package tainteviction

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/resource"
)

// A todo lists the actions for the pods of one node.
type todo struct {
	remove []*corev1.Pod
	spared []*corev1.Pod           // were to go, and stay now
	since  map[types.UID]time.Time // who waits, and since when
	again  time.Duration
}

// plan is pure: same taints, same pods, same past, same time, same answer.
func plan(taints []corev1.Taint, list []*corev1.Pod, was map[types.UID]time.Time, now time.Time) (t todo) {
	t.since = map[types.UID]time.Time{}
	for _, p := range list {
		since, waited := was[p.UID]
		if !waited {
			since = now
		}
		if p.DeletionTimestamp != nil {
			continue
		}
		switch left, bounded := stay(taints, p.Spec.Tolerations, since, now); {
		case !bounded && waited:
			t.spared = append(t.spared, p)
		case !bounded:
		case left <= 0:
			t.remove = append(t.remove, p)
			t.since[p.UID] = since
		default:
			t.since[p.UID] = since
			if t.again == 0 || left < t.again {
				t.again = left
			}
		}
	}
	return t
}

// stay returns how much longer a pod may remain on a node with the taints; bounded is false when it may for ever. A wait runs
// from the time of the taint, or else from when the pod was first seen there.
func stay(taints []corev1.Taint, tolerations []corev1.Toleration, since, now time.Time) (left time.Duration, bounded bool) {
	for i := range taints {
		tol := tolerating(tolerations, &taints[i])
		if tol == nil {
			return 0, true
		}
		if tol.TolerationSeconds == nil {
			continue
		}
		from := since
		if added := taints[i].TimeAdded; added != nil && added.After(from) {
			from = added.Time
		}
		l := from.Add(resource.Seconds(max(*tol.TolerationSeconds, 0))).Sub(now)
		if !bounded || l < left {
			left, bounded = l, true
		}
	}
	return left, bounded
}

// tolerating is the first toleration of the taint, or nil.
func tolerating(list []corev1.Toleration, t *corev1.Taint) *corev1.Toleration {
	for i := range list {
		if pods.Tolerates(&list[i], t) {
			return &list[i]
		}
	}
	return nil
}
