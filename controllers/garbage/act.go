package garbage

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A todo is the planned action for an object that has owners.
type todo struct {
	remove metav1.DeletionPropagation // "": keep it
	drop   []types.UID                // owner references to take off
	free   bool                       // first stop blocking the owners: they wait in a circle
}

// decide is pure: an object with a living owner stays and forgets the others; without one it goes, in the
// foreground when an owner waits for it and it has dependents that block.
func decide(owners []owner, dep blocked) (t todo) {
	var live, waiting, blocking bool
	for _, o := range owners {
		blocking = blocking || blocks(o.ref)
		switch o.fate {
		case solid:
			live = true
		case waits:
			waiting = true
			t.drop = append(t.drop, o.ref.UID)
		case dangles:
			t.drop = append(t.drop, o.ref.UID)
		}
	}
	switch {
	case live:
		return t
	case waiting && dep.any:
		return todo{remove: metav1.DeletePropagationForeground, free: blocking && dep.leaving}
	}
	return todo{remove: metav1.DeletePropagationBackground}
}

func act(ctx context.Context, c *loop.Ctx, k resource.Kind, obj resource.Object, t todo) error {
	if t.remove == "" {
		if len(t.drop) == 0 {
			return nil
		}
		return patchRefs(ctx, c, k, obj, without(obj.GetOwnerReferences(), t.drop))
	}
	if t.free {
		return patchRefs(ctx, c, k, obj, unblocked(obj.GetOwnerReferences())) // the change wakes it again
	}
	uid, policy := obj.GetUID(), t.remove
	// A policy that the object was deleted with before stands in its finalizers.
	for _, f := range obj.GetFinalizers() {
		switch f {
		case metav1.FinalizerOrphanDependents:
			policy = metav1.DeletePropagationOrphan
		case metav1.FinalizerDeleteDependents:
			policy = metav1.DeletePropagationForeground
		}
	}
	rv := obj.GetResourceVersion()
	err := c.DeleteWith(ctx, k, obj, &metav1.DeleteOptions{PropagationPolicy: &policy,
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv}})
	if apierrors.IsConflict(err) {
		return nil // it changed: its change wakes it again
	}
	return err
}

// orphan lets the dependents go, then the owner.
func orphan(ctx context.Context, c *loop.Ctx, g graph, k resource.Kind, obj resource.Object) error {
	var errs []error
	for dk, dep := range g.dependents(obj.GetUID()) {
		err := patchRefs(ctx, c, dk, dep, without(dep.GetOwnerReferences(), []types.UID{obj.GetUID()}))
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return dropFinalizer(ctx, c, k, obj, metav1.FinalizerOrphanDependents)
}

// foreground lets the owner go when no dependent blocks it any more. The dependents are keys of their own: the
// owner's deletion woke them.
func foreground(ctx context.Context, c *loop.Ctx, g graph, k resource.Kind, obj resource.Object) error {
	for bk, b := range g.blockers(obj) {
		c.Waiting("%s still exists and blocks the deletion", loop.KeyOf(bk, b))
		return nil
	}
	return dropFinalizer(ctx, c, k, obj, metav1.FinalizerDeleteDependents)
}

func dropFinalizer(ctx context.Context, c *loop.Ctx, k resource.Kind, obj resource.Object, name string) error {
	rest := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == name })
	err := patchMeta(ctx, c, k, obj, "finalizers", rest)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func without(refs []metav1.OwnerReference, drop []types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(refs), func(r metav1.OwnerReference) bool { return slices.Contains(drop, r.UID) })
}

func unblocked(refs []metav1.OwnerReference) []metav1.OwnerReference {
	refs = slices.Clone(refs)
	for i := range refs {
		refs[i].BlockOwnerDeletion = new(bool)
	}
	return refs
}

func patchRefs(ctx context.Context, c *loop.Ctx, k resource.Kind, obj resource.Object, refs []metav1.OwnerReference) error {
	return patchMeta(ctx, c, k, obj, "ownerReferences", refs)
}

// patchMeta replaces one list of metadata on exactly the object that was read.
func patchMeta(ctx context.Context, c *loop.Ctx, k resource.Kind, obj resource.Object, field string, value any) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{field: value,
		"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion()}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, k, obj, client.Patch{Type: types.MergePatchType, Data: data})
}
