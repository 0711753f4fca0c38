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
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a ReplicaSet, a Pod it owns, or a Pod that it may adopt.
var Controller = &loop.Controller[*appsv1.ReplicaSet]{
	Name:      "replicaset",
	For:       kinds.ReplicaSets,
	Wake:      []loop.Wake{loop.Owner(kinds.Pods), loop.Each(kinds.Pods, adopters)},
	Writes:    []resource.Kind{kinds.Pods, kinds.ReplicaSets},
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, rs *appsv1.ReplicaSet) (again time.Duration, err error) {
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil {
		return 0, nil // validation refuses such a selector; an object from elsewhere that has one stays as it is
	}
	owned, err := pods.Claim(ctx, c, pods.Owner{Object: rs, Kind: kinds.ReplicaSets, Selector: selector}) // observe
	if err != nil {
		return 0, err
	}
	todo := plan(rs, owned, c.Now()) // decide
	failure := act(ctx, c, rs, todo) // act
	next := status(rs, owned, selector, failure, todo, c.Now())
	if next != nil {
		failure = errors.Join(failure, c.UpdateStatus(ctx, kinds.ReplicaSets, next))
	}
	return todo.again, failure
}

// act creates and deletes pods and returns the first refusal.
func act(ctx context.Context, c *loop.Ctx, rs *appsv1.ReplicaSet, t todo) error {
	_, err := loop.Batch(t.create, func(int) error {
		return pods.Create(ctx, c, kinds.ReplicaSets, rs, pods.FromTemplate(kinds.ReplicaSets, rs, &rs.Spec.Template))
	})
	if err != nil {
		return err
	}
	_, err = loop.Batch(len(t.remove), func(i int) error {
		return pods.Delete(ctx, c, kinds.ReplicaSets, rs, t.remove[i])
	})
	return err
}

// adopters wakes the sets whose selector matches a pod that nobody controls.
func adopters(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	if metav1.GetControllerOfNoCopy(obj) != nil || len(obj.GetLabels()) == 0 {
		return
	}
	for _, rs := range resource.List(read, kinds.ReplicaSets, obj.GetNamespace()) {
		s, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
		if err == nil && !s.Empty() && s.Matches(labels.Set(obj.GetLabels())) {
			wake(rs.Namespace, rs.Name)
		}
	}
}

// active tells the pods that count towards the wish: neither finished nor on their way out.
func active(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}
