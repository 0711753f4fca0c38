package crd

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

// steps takes a simple path apart: .spec.replicas.
func steps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// Unscaled says why the scale of an object can't be shown: a path leads to something else than a number, or the object does
// not say how many replicas it wants, which is field then. It is nil for those with a scale.
func (k *Kind) Unscaled(obj resource.Object) (field string, err error) {
	s := k.at.scale()
	if s == nil {
		return "", nil
	}
	o, err := k.object(obj)
	if err != nil {
		return "", err
	}
	_, has, err := unstructured.NestedInt64(o.Object, steps(s.SpecReplicasPath)...)
	if err != nil {
		return "", err
	}
	if _, _, err := unstructured.NestedInt64(o.Object, steps(s.StatusReplicasPath)...); err != nil {
		return "", err
	}
	if p := s.LabelSelectorPath; p != nil && *p != "" {
		if _, _, err := unstructured.NestedString(o.Object, steps(*p)...); err != nil {
			return "", err
		}
	}
	if !has {
		return s.SpecReplicasPath, nil
	}
	return "", nil
}

// Scaled implements resource.Kind. What can't be read has no replicas; what can't be written is refused by validation.
func (k *Kind) Scaled() *resource.Scaled[resource.Object] {
	s := k.at.scale()
	if s == nil {
		return nil
	}
	return &resource.Scaled[resource.Object]{Get: func(obj resource.Object) (out resource.Scale) {
		if o, err := k.object(obj); err == nil {
			want, _, _ := unstructured.NestedInt64(o.Object, steps(s.SpecReplicasPath)...)
			is, _, _ := unstructured.NestedInt64(o.Object, steps(s.StatusReplicasPath)...)
			out = resource.Scale{Replicas: int32(want), Current: int32(is)}
			if s.LabelSelectorPath != nil && *s.LabelSelectorPath != "" {
				out.Selector, _, _ = unstructured.NestedString(o.Object, steps(*s.LabelSelectorPath)...)
			}
		}
		return out
	}, Set: func(obj resource.Object, replicas int32) {
		if o, err := k.object(obj); err == nil {
			_ = unstructured.SetNestedField(o.Object, int64(replicas), steps(s.SpecReplicasPath)...)
		}
	}}
}

// ReplicasPath implements apply.Scalable.
func (k *Kind) ReplicasPath(gvk schema.GroupVersionKind) []string {
	v := k.find(gvk)
	if v == nil || v.scale() == nil {
		return nil
	}
	return steps(v.scale().SpecReplicasPath)
}

func (v *version) checkScaleSpec(u map[string]any) field.ErrorList {
	s := v.scale()
	if s == nil {
		return nil
	}
	return checkCount(u, s.SpecReplicasPath)
}

func (v *version) checkScaleStatus(u map[string]any) field.ErrorList {
	s := v.scale()
	if s == nil {
		return nil
	}
	errs := checkCount(u, s.StatusReplicasPath)
	if p := s.LabelSelectorPath; p != nil && *p != "" {
		if text, _, err := unstructured.NestedString(u, steps(*p)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*p), text, err.Error()))
		}
	}
	return errs
}

// checkCount checks a number of replicas.
func checkCount(u map[string]any, path string) field.ErrorList {
	at := field.NewPath(path)
	switch n, _, err := unstructured.NestedInt64(u, steps(path)...); {
	case err != nil:
		return field.ErrorList{field.Invalid(at, n, err.Error())}
	case n < 0:
		return field.ErrorList{field.Invalid(at, n, "should be a non-negative integer")}
	case n > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))}
	}
	return nil
}
