package admission

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
)

// ownership lets only those give an object an owner who may delete the object, and let it hold up the owner's deletion who may set
// the owner's finalizers.
type ownership struct {
	authorize auth.Authorizer
	kinds     *resource.Set
}

func (o ownership) validate(ctx context.Context, r *Request) error {
	if r.Object == nil || r.Op != Create && r.Op != Update || r.Called() || r.Of("", "pods") && r.Sub == "status" {
		return nil
	}
	var before []metav1.OwnerReference
	if r.Old != nil {
		before = r.Old.GetOwnerReferences()
	}
	after := r.Object.GetOwnerReferences()
	if len(before) == len(after) && (len(after) == 0 || equality.Semantic.DeepEqual(before, after)) {
		return nil
	}
	gr := r.GR()
	if r.Op != Create {
		d, reason, err := o.authorize.Authorize(ctx, &auth.Attributes{User: r.User, Verb: "delete", Namespace: r.Namespace, Group: gr.Group,
			Version: r.Resource().Version, Resource: gr.Resource, Subresource: r.Sub, Name: r.Name})
		if d != auth.Allow {
			return r.Refuse("cannot set an ownerRef on a resource you can't delete: %v, %v", reason, err)
		}
	}
	for _, ref := range after {
		if !blocks(ref) || slices.ContainsFunc(before, func(b metav1.OwnerReference) bool { return b.UID == ref.UID && blocks(b) }) {
			continue
		}
		if err := o.mayBlock(ctx, r, ref); err != nil {
			return err
		}
	}
	return nil
}

func blocks(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

func (o ownership) mayBlock(ctx context.Context, r *Request, ref metav1.OwnerReference) error {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	k, ok := o.kinds.Kind(gvk)
	if !ok {
		return r.Refuse(
			"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: no matches for kind %q in "+
				"version %q",
			ref.APIVersion, ref.Kind, ref.Kind, ref.APIVersion)
	}
	a := &auth.Attributes{User: r.User, Verb: "update", Group: gvk.Group, Version: gvk.Version, Resource: k.Info().Plural,
		Subresource: "finalizers", Name: ref.Name}
	if k.Info().Namespaced {
		a.Namespace = r.Namespace
	}
	if d, reason, err := o.authorize.Authorize(ctx, a); d != auth.Allow {
		return r.Refuse("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v",
			reason, err)
	}
	return nil
}
