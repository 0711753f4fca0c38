package apply

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kloop-dev/kloop/resource"
)

// Scalable is implemented by kinds that keep the wanted replicas elsewhere than in spec.replicas.
type Scalable interface {
	// ReplicasPath returns the field names on the way to the wanted replicas in the given version; nil means
	// that the version has no scale subresource.
	ReplicasPath(gvk schema.GroupVersionKind) []string
}

var scales = resource.Def[*autoscalingv1.Scale]{GVK: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), Plural: "scales",
	Namespaced: true, Virtual: true}

func scaleBooks(t *types) (schema.GroupVersionKind, *managedfields.FieldManager, error) {
	gvk := scales.GVK
	a := adapter{kind: &scales, types: t}
	m, err := managedfields.NewDefaultFieldManager(a, a, a, a, gvk, gvk.GroupVersion(), "scale", nil)
	return gvk, m, err
}

// updateScale books a write of the replicas: the owner is named on the scaled object itself, with the
// subresource scale.
func (t *Tracker) updateScale(w *Write, s *smd, old, obj resource.Object) error {
	if old == nil {
		return fmt.Errorf("scale %s: there is no object", w.GVK.Kind)
	}
	h := managedfields.NewScaleHandler(old.GetManagedFields(), w.GVK.GroupVersion(), replicaPaths(w.Kind))
	before, err := scaleOf(w.Kind, old, h)
	if err != nil {
		return err
	}
	after, err := scaleOf(w.Kind, obj, h)
	if err != nil {
		return err
	}
	(&smd{kind: &scales, gvk: s.gvk, sub: s.sub, books: s.books}).mustUpdate(w, before, after)
	return parentFields(h, after, obj)
}

// mustUpdate keeps the old books when the update of a Scale can't be booked, as for whole objects.
func (s *smd) mustUpdate(w *Write, before, after *autoscalingv1.Scale) {
	if err := s.update(w, before, after); err != nil {
		after.ManagedFields = before.ManagedFields
	}
}

// applyScale merges an applied Scale into the object that it scales.
func (t *Tracker) applyScale(w *Write, s *smd, old resource.Object, doc map[string]any, force bool) (resource.Object, error) {
	if old == nil {
		return nil, apierrors.NewNotFound(w.Kind.Info().GR(), "")
	}
	h := managedfields.NewScaleHandler(old.GetManagedFields(), w.GVK.GroupVersion(), replicaPaths(w.Kind))
	live, err := scaleOf(w.Kind, old, h)
	if err != nil {
		return nil, err
	}
	out, err := (&smd{kind: &scales, gvk: s.gvk, sub: s.sub, books: s.books}).apply(w, live, doc, force)
	if err != nil {
		return nil, err
	}
	scale := out.(*autoscalingv1.Scale)
	if scale.Name != old.GetName() {
		return nil, CheckName(scale, old.GetNamespace(), old.GetName())
	}
	obj := resource.Clone(old)
	w.Kind.Scaled().Set(obj, scale.Spec.Replicas)
	return obj, parentFields(h, scale, obj)
}

// scaleOf shows the object as a Scale, with the owners of the replicas as its owners.
func scaleOf(k resource.Kind, obj resource.Object, h *managedfields.ScaleHandler) (*autoscalingv1.Scale, error) {
	sc, ok := resource.ScaleOf(k, obj)
	if !ok {
		return nil, fmt.Errorf("scale %s: it has no scale", k.Info().GVK.Kind)
	}
	owners, err := h.ToSubresource()
	if err != nil {
		return nil, fmt.Errorf("read the owners of the replicas: %w", err)
	}
	s := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: sc.Replicas},
		Status: autoscalingv1.ScaleStatus{Replicas: sc.Current, Selector: sc.Selector}}
	s.SetGroupVersionKind(scales.GVK)
	s.Name, s.Namespace, s.UID = obj.GetName(), obj.GetNamespace(), obj.GetUID()
	s.ResourceVersion, s.CreationTimestamp = obj.GetResourceVersion(), obj.GetCreationTimestamp()
	s.ManagedFields = owners
	return s, nil
}

func parentFields(h *managedfields.ScaleHandler, s *autoscalingv1.Scale, obj resource.Object) error {
	list, err := h.ToParent(s.ManagedFields)
	if err != nil {
		return fmt.Errorf("book the owners of the replicas: %w", err)
	}
	obj.SetManagedFields(list)
	return nil
}

func replicaPaths(k resource.Kind) managedfields.ResourcePathMappings {
	i := k.Info()
	m := managedfields.ResourcePathMappings{}
	for _, gvk := range append([]schema.GroupVersionKind{i.GVK}, i.Also...) {
		names := []string{"spec", "replicas"}
		if s, ok := k.(Scalable); ok {
			names = s.ReplicasPath(gvk)
		}
		var path fieldpath.Path
		for i := range names {
			path = append(path, fieldpath.PathElement{FieldName: &names[i]})
		}
		m[gvk.GroupVersion().String()] = path
	}
	return m
}
