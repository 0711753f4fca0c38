package replicaset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/controllers/internal/replicas"
	"github.com/kloop-dev/kloop/resource"
)

// status returns the set with its new status, or nil when nothing changed.
func status(rs *appsv1.ReplicaSet, n replicas.Counts, failure error, t replicas.Todo, now time.Time) *appsv1.ReplicaSet {
	next := appsv1.ReplicaSetStatus{ObservedGeneration: rs.Generation, Conditions: slices.Clone(rs.Status.Conditions),
		Replicas: n.Replicas, FullyLabeledReplicas: n.FullyLabeled, ReadyReplicas: n.Ready, AvailableReplicas: n.Available,
		TerminatingReplicas: &n.Terminating}
	setFailure(&next, failure, t, now)
	if resource.Same(rs.Status, next) {
		return nil
	}
	out := resource.Clone(rs)
	out.Status = next
	return out
}

// setFailure keeps the ReplicaFailure condition: there while pods can't be created or deleted.
func setFailure(st *appsv1.ReplicaSetStatus, failure error, t replicas.Todo, now time.Time) {
	at := slices.IndexFunc(st.Conditions, func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })
	switch {
	case failure == nil && at >= 0:
		st.Conditions = slices.Delete(st.Conditions, at, at+1)
	case failure != nil && at < 0:
		st.Conditions = append(st.Conditions, appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetReplicaFailure,
			Status: corev1.ConditionTrue, Reason: t.FailureReason(), Message: failure.Error(), LastTransitionTime: metav1.NewTime(now)})
	}
}
