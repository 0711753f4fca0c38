// Package replicaset keeps the wanted number of pods alive for every ReplicaSet.
//
//	reads   ReplicaSet, the Pods it owns, Pods without an owner that its selector matches
//	writes  Pod: create, delete, adopt, release; ReplicaSet: status
//	rule    spec.replicas active pods, no more, no fewer
package replicaset

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/controllers/internal/ownership"
	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/controllers/internal/replicas"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a ReplicaSet, a Pod it owns, or a Pod that it may adopt.
var Controller = &loop.Controller[*appsv1.ReplicaSet]{
	Name:      "replicaset",
	For:       kinds.ReplicaSets,
	Wake:      []loop.Wake{loop.Owner(kinds.Pods), adopters},
	Writes:    []resource.Kind{kinds.Pods, kinds.ReplicaSets},
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, rs *appsv1.ReplicaSet) (again time.Duration, err error) {
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil {
		return 0, nil // validation refuses such a selector; an object from elsewhere that has one stays as it is
	}
	owned, err := pods.Claim(ctx, c, ownership.Owner[*corev1.Pod]{Object: rs, Kind: kinds.ReplicaSets, Selector: selector}) // observe
	if err != nil {
		return 0, err
	}
	set := replicas.Set{Object: rs, Kind: kinds.ReplicaSets, Replicas: *rs.Spec.Replicas, MinReady: rs.Spec.MinReadySeconds,
		Template: &rs.Spec.Template}
	if len(owned) > int(set.Replicas) {
		set.Company = siblings(c, rs)
	}
	todo := replicas.Plan(set, owned, c.Now())    // decide
	failure := replicas.Act(ctx, c, set, todo)    // act
	counts := replicas.Count(set, owned, c.Now()) // and tell
	if next := status(rs, counts, failure, todo, c.Now()); next != nil {
		failure = errors.Join(failure, c.UpdateStatus(ctx, kinds.ReplicaSets, next))
	}
	return todo.Again, failure
}

// siblings are the pods of the other sets that the controller of rs has.
func siblings(c *loop.Ctx, rs *appsv1.ReplicaSet) (list []*corev1.Pod) {
	ref := metav1.GetControllerOfNoCopy(rs)
	if ref == nil {
		return nil
	}
	for obj := range c.ByOwner(kinds.ReplicaSets, string(ref.UID)) {
		if obj.GetUID() != rs.UID {
			list = append(list, resource.Owned(c, kinds.Pods, obj)...)
		}
	}
	return list
}

// adopters wakes those that may adopt.
var adopters = loop.Adopters(kinds.Pods, kinds.ReplicaSets, func(o *appsv1.ReplicaSet) *metav1.LabelSelector { return o.Spec.Selector })
