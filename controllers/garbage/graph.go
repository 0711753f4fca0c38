package garbage

import (
	"context"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// graph reads who owns whom. It holds nothing of its own: the owner index is the graph.
type graph struct {
	read  resource.Reader
	kinds *resource.Set
}

// dependents yields the objects that name the uid as an owner.
func (g graph) dependents(uid types.UID) iter.Seq2[resource.Kind, resource.Object] {
	return func(yield func(resource.Kind, resource.Object) bool) {
		var k resource.Kind
		more := true
		each := func(obj resource.Object) bool { // one for all kinds: a loop over each would make its own
			more = yield(k, obj)
			return more
		}
		for _, k = range g.kinds.All() {
			if k.Info().Virtual {
				continue
			}
			if g.read.ByOwner(k, string(uid))(each); !more {
				return
			}
		}
	}
}

// find returns the owner that a reference names, or nil; k is nil when the kind is not served.
func (g graph) find(ns string, ref metav1.OwnerReference) (k resource.Kind, owner resource.Object) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, nil
	}
	k, ok := g.kinds.GroupKind(schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if !ok {
		return nil, nil
	}
	if !k.Info().Namespaced {
		ns = ""
	}
	if obj := g.read.Lookup(k, ns, ref.Name); obj != nil && obj.GetUID() == ref.UID {
		return k, obj
	}
	return k, nil
}

// fate tells whether an owner is there, absent or going.
type fate int

const (
	solid   fate = iota // lives, or can't be judged
	dangles             // does not exist
	waits               // is being deleted in the foreground and waits for its dependents
)

// An owner is one reference and what became of its object.
type owner struct {
	ref  metav1.OwnerReference
	fate fate
}

// owners judges every owner of obj. That one is absent is checked with the server, because the state at hand
// may be older than the owner.
func (g graph) owners(ctx context.Context, c client.Client, obj resource.Object) (list []owner, err error) {
	for _, ref := range obj.GetOwnerReferences() {
		k, o := g.find(obj.GetNamespace(), ref)
		switch {
		case o != nil && duty(o) == metav1.FinalizerDeleteDependents:
			list = append(list, owner{ref, waits})
		case o != nil:
			list = append(list, owner{ref, solid})
		case k == nil: // a kind that is not served now may be served again
			list = append(list, owner{ref, solid})
		case k.Info().Namespaced && obj.GetNamespace() == "": // such an owner can't be: it is nobody's to say that it is gone
			list = append(list, owner{ref, solid})
		default:
			there, err := exists(ctx, c, k, obj.GetNamespace(), ref)
			if err != nil {
				return nil, err
			}
			f := dangles
			if there {
				f = solid
			}
			list = append(list, owner{ref, f})
		}
	}
	return list, nil
}

func exists(ctx context.Context, c client.Client, k resource.Kind, ns string, ref metav1.OwnerReference) (bool, error) {
	if !k.Info().Namespaced {
		ns = ""
	}
	live, err := c.Get(ctx, k, ns, ref.Name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && live.GetUID() == ref.UID, err
}

// stray is an owner reference of the object that leads nowhere because the owner is in another namespace, or in one at all
// while the object is in none; nil when there is none.
func (g graph) stray(obj resource.Object) *metav1.OwnerReference {
	for _, ref := range obj.GetOwnerReferences() {
		k, o := g.find(obj.GetNamespace(), ref)
		if o != nil || k == nil || !k.Info().Namespaced {
			continue
		}
		if obj.GetNamespace() == "" {
			return &ref
		}
		for ns := range g.read.Each(core.Namespaces, "") {
			if o := g.read.Lookup(k, ns.GetName(), ref.Name); o != nil && o.GetUID() == ref.UID {
				return &ref
			}
		}
	}
	return nil
}

// blocked says whether dependents would block the deletion of an object in the foreground, and whether one of
// them is itself being deleted so.
type blocked struct{ any, leaving bool }

func (g graph) blocked(obj resource.Object) (b blocked) {
	for _, dep := range g.blockers(obj) {
		b.any = true
		b.leaving = b.leaving || duty(dep) == metav1.FinalizerDeleteDependents
	}
	return b
}

// blockers yields the dependents that an owner being deleted in the foreground has to wait for.
func (g graph) blockers(obj resource.Object) iter.Seq2[resource.Kind, resource.Object] {
	return func(yield func(resource.Kind, resource.Object) bool) {
		for k, dep := range g.dependents(obj.GetUID()) {
			for _, ref := range dep.GetOwnerReferences() {
				if ref.UID == obj.GetUID() && blocks(ref) && !yield(k, dep) {
					return
				}
			}
		}
	}
}
