// Package replicationcontroller keeps the wanted number of pods alive for every ReplicationController.
//
//	reads   ReplicationController, the Pods it owns, Pods without an owner that its selector matches
//	writes  Pod: create, delete, adopt, release; ReplicationController: status
//	rule    spec.replicas active pods, no more, no fewer
package replicationcontroller

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/controllers/internal/ownership"
	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/controllers/internal/replicas"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a ReplicationController, a Pod it owns, or a Pod that it may adopt.
var Controller = &loop.Controller[*corev1.ReplicationController]{
	Name:      "replicationcontroller",
	For:       kinds.ReplicationControllers,
	Wake:      []loop.Wake{loop.Owner(kinds.Pods), adopters},
	Writes:    []resource.Kind{kinds.Pods, kinds.ReplicationControllers},
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, rc *corev1.ReplicationController) (time.Duration, error) {
	if rc.Spec.Template == nil || len(rc.Spec.Selector) == 0 {
		return 0, nil
	}
	owned, err := pods.Claim(ctx, c, ownership.Owner[*corev1.Pod]{Object: rc, Kind: kinds.ReplicationControllers,
		Selector: labels.SelectorFromSet(rc.Spec.Selector)}) // observe
	if err != nil {
		return 0, err
	}
	set := replicas.Set{Object: rc, Kind: kinds.ReplicationControllers, MinReady: rc.Spec.MinReadySeconds, Template: rc.Spec.Template}
	if rc.Spec.Replicas != nil {
		set.Replicas = *rc.Spec.Replicas
	}
	todo := replicas.Plan(set, owned, c.Now()) // decide
	failure := replicas.Act(ctx, c, set, todo) // act
	if next := status(rc, replicas.Count(set, owned, c.Now()), failure, todo, c.Now()); next != nil {
		failure = errors.Join(failure, c.UpdateStatus(ctx, kinds.ReplicationControllers, next))
	}
	return todo.Again, failure
}

// status returns the object with its new status, or nil when nothing changed.
func status(rc *corev1.ReplicationController, n replicas.Counts, failure error, t replicas.Todo,
	now time.Time) *corev1.ReplicationController {
	st := corev1.ReplicationControllerStatus{ObservedGeneration: rc.Generation, Conditions: slices.Clone(rc.Status.Conditions),
		Replicas: n.Replicas, FullyLabeledReplicas: n.FullyLabeled, ReadyReplicas: n.Ready, AvailableReplicas: n.Available}
	at := slices.IndexFunc(st.Conditions, func(c corev1.ReplicationControllerCondition) bool {
		return c.Type == corev1.ReplicationControllerReplicaFailure
	})
	switch {
	case failure == nil && at >= 0:
		st.Conditions = slices.Delete(st.Conditions, at, at+1)
	case failure != nil && at < 0:
		st.Conditions = append(st.Conditions, corev1.ReplicationControllerCondition{Type: corev1.ReplicationControllerReplicaFailure,
			Status: corev1.ConditionTrue, Reason: t.FailureReason(), Message: failure.Error(), LastTransitionTime: metav1.NewTime(now)})
	}
	if equality.Semantic.DeepEqual(rc.Status, st) {
		return nil
	}
	next := resource.Clone(rc)
	next.Status = st
	return next
}

// adopters wakes those that may adopt.
var adopters = loop.Adopters(kinds.Pods, kinds.ReplicationControllers, func(o *corev1.ReplicationController) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
})
