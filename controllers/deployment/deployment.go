// Package deployment moves every Deployment from its old template to its new one without dropping below what
// its strategy promises.
//
//	reads   Deployment, the ReplicaSets it owns, ReplicaSets without an owner that its selector matches, their Pods
//	writes  ReplicaSet: create, update, delete; Deployment: status, revision annotation
//	rule    one ReplicaSet has the current template and all replicas; on the way at most replicas + maxSurge pods
//	        exist and at least replicas - maxUnavailable are available
package deployment

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/internal/ownership"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a Deployment, its ReplicaSets, and the end of their pods (Recreate waits for it).
var Controller = &loop.Controller[*appsv1.Deployment]{
	Name: "deployment",
	For:  kinds.Deployments,
	Wake: []loop.Wake{loop.Owner(kinds.ReplicaSets), adopters,
		{Kind: kinds.Pods, Keys: podGone}},
	Writes:    []resource.Kind{kinds.ReplicaSets, kinds.Deployments},
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, d *appsv1.Deployment) (again time.Duration, err error) {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil || selector.Empty() {
		return 0, nil // nothing that it could own
	}
	sets, adopted, err := ownership.Claim(ctx, c, kinds.ReplicaSets, // observe
		ownership.Owner[*appsv1.ReplicaSet]{Object: d, Kind: kinds.Deployments, Selector: selector})
	if len(adopted) > 0 || err != nil {
		return 0, err // what was adopted may be the set to roll out: go on when it shows
	}
	if d.DeletionTimestamp != nil {
		return 0, writeStatus(ctx, c, d, sets, nil)
	}
	w := look(c, d, sets)
	switch again, err := prepare(ctx, c, &w); {
	case errors.Is(err, errEnding):
		return 0, nil
	case again || err != nil:
		return loop.Now, err // go on from the state that holds what was written
	}
	if rev, wished := rollbackTo(d); wished && !paused(d) {
		return 0, rollback(ctx, c, w, rev)
	}
	todo := plan(w, c.Now())   // decide
	err = act(ctx, c, d, todo) // act
	if serr := writeStatus(ctx, c, d, sets, &w); serr != nil {
		return 0, errors.Join(err, serr)
	}
	return untilDeadline(d, sets, c.Now()), err
}

// A world holds the facts that one pass knows.
type world struct {
	d       *appsv1.Deployment
	new     *appsv1.ReplicaSet   // has the current template; nil: to be made
	old     []*appsv1.ReplicaSet // the others, oldest first
	running bool                 // pods of old sets still exist
}

// all returns every set, the new one last.
func (w world) all() []*appsv1.ReplicaSet {
	if w.new == nil {
		return w.old
	}
	return append(w.old[:len(w.old):len(w.old)], w.new)
}

func look(c *loop.Ctx, d *appsv1.Deployment, sets []*appsv1.ReplicaSet) world {
	w := world{d: d}
	w.new, w.old = split(d, sets)
	for _, rs := range w.old {
		for _, p := range resource.Owned(c, kinds.Pods, rs) {
			if !core.Terminal(p) {
				w.running = true
			}
		}
	}
	return w
}

func act(ctx context.Context, c *loop.Ctx, d *appsv1.Deployment, t todo) error {
	var errs []error
	for _, s := range t.scale {
		errs = append(errs, scale(ctx, c, d, s))
	}
	for _, rs := range t.remove {
		errs = append(errs, c.Delete(ctx, kinds.ReplicaSets, rs))
	}
	return errors.Join(errs...)
}

func scale(ctx context.Context, c *loop.Ctx, d *appsv1.Deployment, s scaling) error {
	from := *s.set.Spec.Replicas
	next := resource.Clone(s.set)
	next.Spec.Replicas = &s.to
	annotateSize(d, next)
	if err := c.Update(ctx, kinds.ReplicaSets, next); err != nil || from == s.to {
		return err
	}
	way := "up"
	if s.to < from {
		way = "down"
	}
	c.Event(kinds.Deployments, d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled %s replica set %s from %d to %d", way, s.set.Name,
		from, s.to)
	return nil
}

// adopters wakes those that may adopt.
var adopters = loop.Adopters(kinds.ReplicaSets, kinds.Deployments,
	func(o *appsv1.Deployment) *metav1.LabelSelector { return o.Spec.Selector })

// podGone wakes a deployment of the strategy Recreate when a pod of its sets is gone or has ended.
func podGone(c client.Change, read resource.Reader, wake func(ns, name string)) {
	pod := c.Object().(*corev1.Pod)
	if c.New != nil && !core.Terminal(pod) {
		return
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "ReplicaSet" {
		return
	}
	rs := resource.Get(read, kinds.ReplicaSets, pod.Namespace, ref.Name)
	if rs == nil {
		return
	}
	if owner := metav1.GetControllerOfNoCopy(rs); owner != nil {
		d := resource.Get(read, kinds.Deployments, pod.Namespace, owner.Name)
		if d != nil && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
			wake(d.Namespace, d.Name)
		}
	}
}
