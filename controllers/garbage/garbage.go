// Package garbage removes what has lost its owners, and sees deletions through that wait for dependents.
//
//	reads   every kind
//	writes  every kind: delete, finalizers, ownerReferences
//	rule    an object with owners lives as long as one of them; an owner being deleted in the foreground goes after the
//	        dependents that block it; one being orphaned goes after they have let go of it
package garbage

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller returns the loop, over all kinds of the set: wake on an object with owners or with a finalizer of
// ours, on the dependents of an object that goes, and on the owners that wait for a dependent that went.
func Controller(kinds *resource.Set) *loop.Controller[resource.Object] {
	return &loop.Controller[resource.Object]{
		Name: "garbage-collector",
		Wake: []loop.Wake{{KeysOf: func(c client.Change, read resource.Reader, wake func(loop.Key)) {
			kin(graph{read, kinds}, c, wake)
		}}},
		Writes:  loop.Anything,
		Skip:    func(obj resource.Object) bool { return len(obj.GetOwnerReferences()) == 0 && duty(obj) == "" },
		Workers: 16,
		Reconcile: func(ctx context.Context, c *loop.Ctx, obj resource.Object) (time.Duration, error) {
			return 0, reconcile(ctx, c, graph{c, kinds}, obj)
		},
	}
}

func reconcile(ctx context.Context, c *loop.Ctx, g graph, obj resource.Object) error {
	k, ok := g.kinds.Kind(obj.GetObjectKind().GroupVersionKind())
	if !ok {
		return nil // its kind was removed meanwhile
	}
	switch duty(obj) { // an owner on its way out
	case metav1.FinalizerOrphanDependents:
		return orphan(ctx, c, g, k, obj)
	case metav1.FinalizerDeleteDependents:
		return foreground(ctx, c, g, k, obj)
	}
	if obj.GetDeletionTimestamp() != nil || len(obj.GetOwnerReferences()) == 0 {
		return nil
	}
	owners, err := g.owners(ctx, c.Client(), obj) // observe
	if err != nil {
		return err
	}
	if ref := g.stray(obj); ref != nil {
		c.Event(k, obj, corev1.EventTypeWarning, "OwnerRefInvalidNamespace",
			"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
			ref.APIVersion, ref.Kind, obj.GetNamespace(), ref.Name, ref.UID, obj.GetNamespace())
	}
	var below blocked
	if slices.ContainsFunc(owners, func(o owner) bool { return o.fate == waits }) { // else it makes no difference
		below = g.blocked(obj)
	}
	return act(ctx, c, k, obj, decide(owners, below)) // decide, act
}

// duty is the finalizer that makes a deleted object our business.
func duty(obj resource.Object) string {
	if obj.GetDeletionTimestamp() == nil {
		return ""
	}
	for _, f := range obj.GetFinalizers() {
		if f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents {
			return f
		}
	}
	return ""
}

// kin wakes the relatives of an object that goes or is about to: its dependents, and owners that wait for it.
func kin(g graph, c client.Change, wake func(loop.Key)) {
	obj := c.Object()
	if c.New != nil && obj.GetDeletionTimestamp() == nil && !lostOwner(c) {
		return
	}
	if c.New == nil || duty(obj) != "" {
		for k, dep := range g.dependents(obj.GetUID()) {
			wake(loop.KeyOf(k, dep))
		}
	}
	if c.Old == nil {
		return
	}
	for _, ref := range c.Old.GetOwnerReferences() {
		k, owner := g.find(c.Old.GetNamespace(), ref)
		if owner != nil && duty(owner) != "" {
			wake(loop.KeyOf(k, owner))
		}
	}
}

// lostOwner says that an object let go of an owner, or does not block its deletion any more.
func lostOwner(c client.Change) bool {
	if c.Old == nil || c.New == nil {
		return false
	}
	now := c.New.GetOwnerReferences()
	for _, was := range c.Old.GetOwnerReferences() {
		if blocks(was) && !slices.ContainsFunc(now, func(r metav1.OwnerReference) bool { return r.UID == was.UID && blocks(r) }) {
			return true
		}
	}
	return false
}

func blocks(r metav1.OwnerReference) bool {
	return r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
}
