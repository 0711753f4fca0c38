package apply

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// Overlay merges fields into a copy of live as server-side apply would, but records no owner for them: admission
// policies change objects so (KEP-3962). The fields are of live's version. What is atomic can't be overlaid,
// as all of it that is not named would go. live is not changed.
func (t *Tracker) Overlay(k resource.Kind, live resource.Object, fields map[string]any) (resource.Object, error) {
	gvk := live.GetObjectKind().GroupVersionKind()
	a := adapter{kind: k, types: &t.types}
	over := &unstructured.Unstructured{Object: fields}
	over.SetGroupVersionKind(gvk)
	top, err := a.ObjectToTyped(over)
	if err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	if list := atomics(nil, top.Schema(), top.TypeRef(), top.AsValue()); len(list) > 0 {
		return nil, errors.New("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: " + strings.Join(list, ", "))
	}
	base, err := a.ObjectToTyped(live, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
	}
	merged, err := base.Merge(top)
	if err != nil {
		return nil, fmt.Errorf("failed to merge patch: %w", err)
	}
	u, err := a.TypedToObject(merged)
	if err != nil {
		return nil, err
	}
	out, err := a.like(live, u)
	if err != nil {
		return nil, fmt.Errorf("failed to convert typed object to object: %w", err)
	}
	return out, nil
}

// like returns a tree as an object of the type that live has, which for the bodies of calls is not the kind's.
func (a adapter) like(live resource.Object, u runtime.Object) (resource.Object, error) {
	if a.kind.Info().Custom || reflect.TypeOf(live) == reflect.TypeOf(u) {
		return a.proper(u, live.GetObjectKind().GroupVersionKind())
	}
	out := reflect.New(reflect.TypeOf(live).Elem()).Interface().(resource.Object)
	return out, codec.FromTree(u.(runtime.Unstructured).UnstructuredContent(), out)
}

// atomics names the parts of a value that its schema says belong together.
func atomics(path fieldpath.Path, s *schema.Schema, tr schema.TypeRef, v value.Value) (list []string) {
	a, ok := s.Resolve(tr)
	switch {
	case !ok:
	case v.IsMap() && a.Map != nil:
		if a.Map.ElementRelationship == schema.Atomic {
			list = append(list, path.String())
		}
		v.AsMap().Iterate(func(name string, of value.Value) bool {
			if f, ok := a.Map.FindField(name); ok {
				list = append(list, atomics(append(slices.Clip(path), fieldpath.PathElement{FieldName: &name}), s, f.Type, of)...)
			}
			return true
		})
	case v.IsList() && a.List != nil:
		if a.List.ElementRelationship == schema.Atomic {
			list = append(list, path.String())
		}
		items := v.AsList()
		for i := range items.Length() {
			list = append(list, atomics(append(slices.Clip(path), fieldpath.PathElement{Index: &i}), s, a.List.ElementType, items.At(i))...)
		}
	}
	return list
}
