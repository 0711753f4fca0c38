package deployment

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// writeStatus stores what was observed, if it is news. w is nil for a deployment that is being deleted.
func writeStatus(ctx context.Context, c *loop.Ctx, d *appsv1.Deployment, sets []*appsv1.ReplicaSet, w *world) error {
	next := *d // what is shared is not changed, and the client clones
	next.Status = counts(d, sets)
	if w != nil {
		next.Status.Conditions = conditions(*w, next.Status, c.Now())
	} else {
		next.Status.Conditions = available(next.Status.Conditions, d, next.Status, c.Now())
	}
	if resource.Same(&d.Status, &next.Status) {
		return nil
	}
	return c.UpdateStatus(ctx, kinds.Deployments, &next)
}

// counts sums up the sets.
func counts(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) appsv1.DeploymentStatus {
	st := appsv1.DeploymentStatus{ObservedGeneration: d.Generation, CollisionCount: d.Status.CollisionCount,
		Conditions: slices.Clone(d.Status.Conditions)}
	terminating := int32(0)
	for _, rs := range sets {
		st.Replicas += rs.Status.Replicas
		st.ReadyReplicas += rs.Status.ReadyReplicas
		st.AvailableReplicas += rs.Status.AvailableReplicas
		if rs.Status.TerminatingReplicas != nil {
			terminating += *rs.Status.TerminatingReplicas
		}
	}
	if current, _ := split(d, sets); current != nil {
		st.UpdatedReplicas = current.Status.Replicas
	}
	wanted := int32(0)
	for _, rs := range sets {
		wanted += *rs.Spec.Replicas
	}
	st.UnavailableReplicas = max(0, wanted-st.AvailableReplicas)
	st.TerminatingReplicas = &terminating
	return st
}

// conditions are Available, Progressing and, while a set reports it, ReplicaFailure. One that changes its status or
// reason goes to the end of the list, so the order in which they are looked at shows.
func conditions(w world, st appsv1.DeploymentStatus, now time.Time) []appsv1.DeploymentCondition {
	list := begin(slices.Clone(w.d.Status.Conditions), w, now)
	list = available(list, w.d, st, now)
	if paused(w.d) {
		return list
	}
	return failure(progress(list, w, st, now), w)
}

func available(list []appsv1.DeploymentCondition, d *appsv1.Deployment, st appsv1.DeploymentStatus,
	now time.Time) []appsv1.DeploymentCondition {
	if st.AvailableReplicas >= *d.Spec.Replicas-maxUnavailable(d) {
		return set(list, appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable",
			"Deployment has minimum availability.", now)
	}
	return set(list, appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable",
		"Deployment does not have minimum availability.", now)
}

// begin returns the Progressing condition of a pause, its end, or a set that was there already. A reported lack of progress stays.
func begin(list []appsv1.DeploymentCondition, w world, now time.Time) []appsv1.DeploymentCondition {
	cur := find(list, appsv1.DeploymentProgressing)
	switch wasPaused := cur != nil && cur.Reason == "DeploymentPaused"; {
	case !tracked(w.d), cur != nil && cur.Reason == "ProgressDeadlineExceeded":
	case paused(w.d) && !wasPaused:
		list = set(list, appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentPaused", "Deployment is paused", now)
	case !paused(w.d) && wasPaused:
		list = set(list, appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed", now)
	case !paused(w.d) && cur == nil && w.new != nil:
		list = moved(list, "FoundNewReplicaSet", fmt.Sprintf("Found new replica set %q", w.new.Name), now)
	}
	return list
}

// progress keeps the Progressing condition: its update time is the time of the last movement, and the deadline runs
// from there.
func progress(list []appsv1.DeploymentCondition, w world, st appsv1.DeploymentStatus, now time.Time) []appsv1.DeploymentCondition {
	if !tracked(w.d) {
		return remove(list, appsv1.DeploymentProgressing)
	}
	cur := find(list, appsv1.DeploymentProgressing)
	name := fmt.Sprintf("Deployment %q", w.d.Name)
	if w.new != nil {
		name = fmt.Sprintf("ReplicaSet %q", w.new.Name)
	}
	switch {
	case cur != nil && cur.Reason == "NewReplicaSetAvailable" && st.Replicas == st.UpdatedReplicas:
		return list // a finished rollout that lost a pod is no new rollout
	case complete(w.d, st):
		return moved(list, "NewReplicaSetAvailable", name+" has successfully progressed.", now)
	case movedOn(w.d.Status, st):
		return moved(list, "ReplicaSetUpdated", name+" is progressing.", now)
	case cur != nil && overdue(w.d, cur, now):
		return set(list, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded", name+" has timed out progressing.", now)
	}
	return list
}

// movedOn says that a rollout came forward between two looks.
func movedOn(was, is appsv1.DeploymentStatus) bool {
	return is.UpdatedReplicas > was.UpdatedReplicas ||
		is.Replicas-is.UpdatedReplicas < was.Replicas-was.UpdatedReplicas ||
		is.ReadyReplicas > was.ReadyReplicas || is.AvailableReplicas > was.AvailableReplicas
}

// tracked says whether the deployment has a deadline; kubectl's way to say none is the largest number.
func tracked(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != 1<<31-1
}

func deadline(d *appsv1.Deployment, cur *appsv1.DeploymentCondition) time.Time {
	return cur.LastUpdateTime.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second)
}

func overdue(d *appsv1.Deployment, cur *appsv1.DeploymentCondition, now time.Time) bool {
	switch {
	case cur.Reason == "ProgressDeadlineExceeded":
		return true
	case cur.Reason == "NewReplicaSetAvailable":
		return false
	}
	return !now.Before(deadline(d, cur))
}

// untilDeadline is the time to look again although nothing may change until then.
func untilDeadline(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, now time.Time) time.Duration {
	cur := find(d.Status.Conditions, appsv1.DeploymentProgressing)
	switch {
	case !tracked(d), paused(d), cur == nil, cur.Status == corev1.ConditionFalse, complete(d, counts(d, sets)):
		return 0
	case cur.Reason == "NewReplicaSetAvailable": // pods that it lost since are no lack of progress
		return 0
	}
	return max(time.Second, deadline(d, cur).Sub(now))
}

// failure passes on what the sets report: that pods can't be created. The new set's word counts before that of old ones.
func failure(list []appsv1.DeploymentCondition, w world) []appsv1.DeploymentCondition {
	list = remove(list, appsv1.DeploymentReplicaFailure)
	sets := w.all()
	if w.new != nil {
		slices.Reverse(sets)
	}
	for _, rs := range sets {
		for _, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				return append(list, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: c.Status, Reason: c.Reason,
					Message: c.Message, LastTransitionTime: c.LastTransitionTime, LastUpdateTime: c.LastTransitionTime})
			}
		}
	}
	return list
}

// report writes how the new set came about, or why it did not.
func report(ctx context.Context, c *loop.Ctx, d *appsv1.Deployment,
	change func([]appsv1.DeploymentCondition) []appsv1.DeploymentCondition) error {
	if !tracked(d) {
		return nil
	}
	next := *d
	next.Status.Conditions = change(slices.Clone(d.Status.Conditions))
	if resource.Same(&d.Status, &next.Status) {
		return nil
	}
	return c.UpdateStatus(ctx, kinds.Deployments, &next)
}

func find(list []appsv1.DeploymentCondition, t appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

func remove(list []appsv1.DeploymentCondition, t appsv1.DeploymentConditionType) []appsv1.DeploymentCondition {
	return slices.DeleteFunc(list, func(c appsv1.DeploymentCondition) bool { return c.Type == t })
}

// set writes a condition unless it says the same already.
func set(list []appsv1.DeploymentCondition, t appsv1.DeploymentConditionType, s corev1.ConditionStatus, reason, text string,
	now time.Time) []appsv1.DeploymentCondition {
	cur := find(list, t)
	if cur != nil && cur.Status == s && cur.Reason == reason {
		return list
	}
	next := appsv1.DeploymentCondition{Type: t, Status: s, Reason: reason, Message: text,
		LastUpdateTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now)}
	if cur != nil && cur.Status == s {
		next.LastTransitionTime = cur.LastTransitionTime
	}
	return append(remove(list, t), next)
}

// moved is set of Progressing=True with a fresh update time.
func moved(list []appsv1.DeploymentCondition, reason, text string, now time.Time) []appsv1.DeploymentCondition {
	next := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reason, Message: text,
		LastUpdateTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now)}
	if cur := find(list, appsv1.DeploymentProgressing); cur != nil && cur.Status == corev1.ConditionTrue {
		next.LastTransitionTime = cur.LastTransitionTime
	}
	return append(remove(list, appsv1.DeploymentProgressing), next)
}
