package replicaset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/resource"
)

// burst bounds how many pods one pass creates or deletes, so that one set can't hold the engine for long.
const burst = 500

// A todo is one pass's difference between wish and world.
type todo struct {
	create int
	remove []*corev1.Pod
	again  time.Duration
}

// plan is pure: same set, same pods, same time, same answer.
func plan(rs *appsv1.ReplicaSet, owned []*corev1.Pod, now time.Time) (t todo) {
	alive := slices.DeleteFunc(slices.Clone(owned), func(p *corev1.Pod) bool { return !active(p) })
	switch surplus := len(alive) - int(*rs.Spec.Replicas); {
	case rs.DeletionTimestamp != nil: // its pods go with it, by garbage collection
	case surplus < 0:
		t.create = min(-surplus, burst)
	case surplus > 0:
		pods.CheapestFirst(alive, now)
		t.remove = alive[:min(surplus, burst)]
	}
	if n := t.create + len(t.remove); n == burst {
		t.again = time.Millisecond
	}
	if wait := soonestAvailable(rs, alive, now); wait > 0 && (t.again == 0 || wait < t.again) {
		t.again = wait
	}
	return t
}

// soonestAvailable is how long until the next ready pod has been ready for minReadySeconds: nothing else
// would wake the set then.
func soonestAvailable(rs *appsv1.ReplicaSet, alive []*corev1.Pod, now time.Time) (wait time.Duration) {
	for _, p := range alive {
		left := pods.UntilAvailable(p, rs.Spec.MinReadySeconds, now)
		if left > 0 && (wait == 0 || left < wait) {
			wait = left
		}
	}
	return wait
}

// status returns the set with its new status, or nil when nothing changed. Counts are those that were
// observed; what this pass did shows in the next.
func status(rs *appsv1.ReplicaSet, owned []*corev1.Pod, _ labels.Selector, failure error, t todo, now time.Time) *appsv1.ReplicaSet {
	next := appsv1.ReplicaSetStatus{ObservedGeneration: rs.Generation, Conditions: slices.Clone(rs.Status.Conditions)}
	template := labels.SelectorFromSet(rs.Spec.Template.Labels)
	terminating := int32(0)
	for _, p := range owned {
		switch {
		case p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed:
			terminating++
			continue
		case !active(p):
			continue
		}
		next.Replicas++
		if template.Matches(labels.Set(p.Labels)) {
			next.FullyLabeledReplicas++
		}
		if pods.Ready(p) {
			next.ReadyReplicas++
			if pods.UntilAvailable(p, rs.Spec.MinReadySeconds, now) == 0 {
				next.AvailableReplicas++
			}
		}
	}
	next.TerminatingReplicas = &terminating
	setFailure(&next, failure, t, now)
	if equality.Semantic.DeepEqual(rs.Status, next) {
		return nil
	}
	out := resource.Clone(rs)
	out.Status = next
	return out
}

// setFailure keeps the ReplicaFailure condition: there while pods can't be created or deleted.
func setFailure(st *appsv1.ReplicaSetStatus, failure error, t todo, now time.Time) {
	at := slices.IndexFunc(st.Conditions, func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })
	switch {
	case failure == nil && at >= 0:
		st.Conditions = slices.Delete(st.Conditions, at, at+1)
	case failure != nil && at < 0:
		reason := "FailedCreate"
		if t.create == 0 {
			reason = "FailedDelete"
		}
		st.Conditions = append(st.Conditions, appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetReplicaFailure,
			Status: corev1.ConditionTrue, Reason: reason, Message: failure.Error(), LastTransitionTime: metav1.NewTime(now)})
	}
}
