// Package daemonset keeps one pod of every DaemonSet on every node that it is meant for.
//
//	reads   DaemonSet, Node, the Pods and ControllerRevisions it owns
//	writes  Pod: create, delete, adopt, release; ControllerRevision; DaemonSet: status
//	rule    each node that the template's selectors and tolerations allow runs exactly one pod of the newest template; an
//	        update makes at most maxUnavailable pods unavailable, or starts at most maxSurge pods beside the old ones
package daemonset

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/internal/ownership"
	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/controllers/internal/revisions"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a DaemonSet, its Pods and revisions, and on Nodes that come, go or change what
// decides about pods.
var Controller = &loop.Controller[*appsv1.DaemonSet]{
	Name: "daemonset",
	For:  kinds.DaemonSets,
	Wake: []loop.Wake{loop.Owner(kinds.Pods), adopters, loop.Owner(kinds.ControllerRevisions),
		{Kind: kinds.Nodes, Keys: nodeChanged}},
	Writes:    []resource.Kind{kinds.Pods, kinds.ControllerRevisions, kinds.DaemonSets},
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, ds *appsv1.DaemonSet) (time.Duration, error) {
	selector, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector)
	if err != nil || selector.Empty() {
		return 0, nil // nothing that it could own
	}
	owned, err := pods.Claim(ctx, c, ownership.Owner[*corev1.Pod]{Object: ds, Kind: kinds.DaemonSets, Selector: selector}) // observe
	if err != nil || ds.DeletionTimestamp != nil {
		return 0, err
	}
	owner := revisions.Owner{Object: ds, Kind: kinds.DaemonSets, Selector: selector, Template: &ds.Spec.Template,
		Collisions: ds.Status.CollisionCount, Label: revisions.Hash}
	history, err := revisions.List(ctx, c, owner)
	if err != nil {
		return 0, err
	}
	current, err := revisions.Current(ctx, c, owner, history)
	if errors.Is(err, revisions.ErrCollision) {
		return 0, collided(ctx, c, ds)
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	w := observe(ds, current.Labels[revisions.Hash], resource.List(c, kinds.Nodes, ""), owned, c.Now())
	todo := plan(w)                // decide
	err = act(ctx, c, ds, w, todo) // act
	if st := w.status(); !resource.Same(ds.Status, st) {
		next := resource.Clone(ds)
		next.Status = st
		err = errors.Join(err, c.UpdateStatus(ctx, kinds.DaemonSets, next))
	}
	limit := int32(10)
	if l := ds.Spec.RevisionHistoryLimit; l != nil {
		limit = *l
	}
	err = errors.Join(err, revisions.Trim(ctx, c, history, limit, func(r *appsv1.ControllerRevision) bool {
		return r.Name == current.Name || w.hashes[r.Labels[revisions.Hash]]
	}))
	return todo.again, err
}

func act(ctx context.Context, c *loop.Ctx, ds *appsv1.DaemonSet, w *world, t todo) error {
	for _, p := range t.ended {
		typ, reason, text := corev1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod %s/%s on node %s, will try to kill it"
		if p.Status.Phase == corev1.PodSucceeded {
			typ, reason, text = corev1.EventTypeNormal, "SucceededDaemonPod", "Found succeeded daemon pod %s/%s on node %s, will try to delete it"
		}
		c.Event(kinds.DaemonSets, ds, typ, reason, text, p.Namespace, p.Name, nodeOf(p))
	}
	_, err := loop.Batch(len(t.create), func(i int) error {
		return pods.Create(ctx, c, kinds.DaemonSets, ds, newPod(ds, t.create[i], w.hash))
	})
	_, derr := loop.All(len(t.remove), func(i int) error { return pods.Delete(ctx, c, kinds.DaemonSets, ds, t.remove[i]) })
	return errors.Join(err, derr)
}

func collided(ctx context.Context, c *loop.Ctx, ds *appsv1.DaemonSet) error {
	next := resource.Clone(ds)
	n := int32(1)
	if ds.Status.CollisionCount != nil {
		n += *ds.Status.CollisionCount
	}
	next.Status.CollisionCount = &n
	return c.UpdateStatus(ctx, kinds.DaemonSets, next)
}

// nodeChanged wakes every set when a node changes in what decides whether pods belong there.
func nodeChanged(c client.Change, read resource.Reader, wake func(ns, name string)) {
	if c.Old != nil && c.New != nil {
		a, b := c.Old.(*corev1.Node), c.New.(*corev1.Node)
		if maps.Equal(a.Labels, b.Labels) && reflect.DeepEqual(a.Spec.Taints, b.Spec.Taints) {
			return
		}
	}
	for obj := range read.Each(kinds.DaemonSets, "") {
		wake(obj.GetNamespace(), obj.GetName())
	}
}

// adopters wakes those that may adopt.
var adopters = loop.Adopters(kinds.Pods, kinds.DaemonSets, func(o *appsv1.DaemonSet) *metav1.LabelSelector { return o.Spec.Selector })
