// Package ownership is the rule by which a controller owns objects, once for all kinds (upstream's ControllerRefManager): it adopts
// what its selector matches and nobody controls, and releases, orphans, what no longer matches. The controllerRef in an object's
// ownerReferences says whose it is.
package ownership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// An Owner is an object that controls others, of type T, by a selector.
type Owner[T resource.Object] struct {
	Object   resource.Object
	Kind     resource.Kind
	Selector labels.Selector
	Member   func(T) bool // nil: everything that matches may be adopted

	// Finalizer, if set, is on everything that it owns: it is added with adoption, and goes with the release, as nobody else
	// would ever take it off.
	Finalizer string
}

// Claim returns what the owner controls, after releasing what no longer matches, and what it has just adopted. All are as
// the snapshot has them. An owner that is being deleted neither adopts nor releases.
func Claim[T resource.Object](ctx context.Context, c *loop.Ctx, k *resource.Def[T], o Owner[T]) (mine, adopted []T, err error) {
	for _, obj := range resource.Owned(c, k, o.Object) {
		if o.Selector.Matches(labels.Set(obj.GetLabels())) || o.Object.GetDeletionTimestamp() != nil {
			mine = append(mine, obj)
			continue
		}
		err = errors.Join(err, release(ctx, c, k, obj, o))
	}
	adopted, aerr := Adopt(ctx, c, k, o)
	return mine, adopted, errors.Join(err, aerr)
}

// Adopt makes the orphans the owner's and returns them. One that is gone by then, or that may not be owned, is left out.
func Adopt[T resource.Object](ctx context.Context, c *loop.Ctx, k *resource.Def[T], o Owner[T]) (adopted []T, err error) {
	if o.Object.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	list := Orphans(c, k, o)
	if len(list) == 0 {
		return nil, nil
	}
	if err := alive(ctx, c, o); err != nil {
		return nil, unlessGone(err)
	}
	ref := *metav1.NewControllerRef(o.Object, o.Kind.Info().GVK)
	for _, obj := range list {
		meta := map[string]any{"ownerReferences": append(slices.Clone(obj.GetOwnerReferences()), ref)}
		if o.Finalizer != "" && !slices.Contains(obj.GetFinalizers(), o.Finalizer) {
			meta["finalizers"] = append(slices.Clone(obj.GetFinalizers()), o.Finalizer)
		}
		switch aerr := c.Patch(ctx, k, obj, Meta(obj, meta)); {
		case aerr == nil:
			adopted = append(adopted, obj)
		case !apierrors.IsNotFound(aerr) && !apierrors.IsInvalid(aerr):
			err = errors.Join(err, aerr)
		}
	}
	return adopted, err
}

// alive asks the server, once a pass: the owner may have been deleted and made anew under the same name since the snapshot.
func alive[T resource.Object](ctx context.Context, c *loop.Ctx, o Owner[T]) error {
	live, err := c.Client().Get(ctx, o.Kind, o.Object.GetNamespace(), o.Object.GetName())
	if err != nil {
		return err
	}
	if live.GetUID() != o.Object.GetUID() || live.GetDeletionTimestamp() != nil {
		return fmt.Errorf("adopt for %s %s: the owner is gone", o.Kind.Info().GVK.Kind, o.Object.GetName())
	}
	return nil
}

// Orphans finds what matches and nobody controls, by the first index that the selector allows. A selector that is empty, which
// would match everything, finds nothing.
func Orphans[T resource.Object](c *loop.Ctx, k *resource.Def[T], o Owner[T]) (list []T) {
	if o.Selector.Empty() {
		return nil
	}
	ns := o.Object.GetNamespace()
	seq := c.Each(k, ns)
	if reqs, ok := o.Selector.Requirements(); ok {
		for _, r := range reqs {
			if vals := r.ValuesUnsorted(); len(vals) == 1 && (r.Operator() == "=" || r.Operator() == "==" || r.Operator() == "in") {
				seq = c.ByLabel(k, ns, r.Key(), vals[0])
				break
			}
		}
	}
	for obj := range seq {
		if metav1.GetControllerOfNoCopy(obj) != nil || obj.GetDeletionTimestamp() != nil || !o.Selector.Matches(labels.Set(obj.GetLabels())) {
			continue
		}
		if t := resource.As[T](obj); o.Member == nil || o.Member(t) {
			list = append(list, t)
		}
	}
	return list
}

func release[T resource.Object](ctx context.Context, c *loop.Ctx, k *resource.Def[T], obj T, o Owner[T]) error {
	meta := map[string]any{"ownerReferences": slices.DeleteFunc(slices.Clone(obj.GetOwnerReferences()),
		func(r metav1.OwnerReference) bool { return r.UID == o.Object.GetUID() })}
	if slices.Contains(obj.GetFinalizers(), o.Finalizer) {
		meta["finalizers"] = slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == o.Finalizer })
	}
	return unlessGone(c.Patch(ctx, k, obj, Meta(obj, meta)))
}

// unlessGone is nil for an object that is not there any more: nobody needs to own it.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Meta is a patch of metadata that only the very object that was read accepts.
func Meta(obj resource.Object, meta map[string]any) client.Patch {
	meta["uid"] = obj.GetUID()
	meta["resourceVersion"] = obj.GetResourceVersion()
	data, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		panic(err) // strings and references always encode
	}
	return client.Patch{Type: types.MergePatchType, Data: data}
}
