package apply

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// adapter shows a kind to the library the way it wants to see a scheme.
type adapter struct {
	kind  resource.Kind
	types *types
	of    schema.GroupVersionKind // in which is written: it does not know strangers
}

var (
	_ managedfields.TypeConverter = adapter{}
	_ runtime.ObjectConvertor     = adapter{}
	_ runtime.ObjectDefaulter     = adapter{}
	_ runtime.ObjectCreater       = adapter{}
)

// ObjectToTyped implements managedfields.TypeConverter.
func (a adapter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	t := a.types.of(obj.GetObjectKind().GroupVersionKind())
	switch o := obj.(type) {
	case runtime.Unstructured:
		return t.FromUnstructured(o.UnstructuredContent(), opts...)
	default:
		if !a.kind.Info().Custom {
			return t.FromStructured(obj, opts...)
		}
		m, err := content(obj)
		if err != nil {
			return nil, err
		}
		return t.FromUnstructured(m, opts...)
	}
}

// TypedToObject implements managedfields.TypeConverter.
func (a adapter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	m, ok := v.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("merge %s: the result is not an object", a.kind.Info().GVK.Kind)
	}
	return &unstructured.Unstructured{Object: m}, nil
}

// ConvertToVersion implements runtime.ObjectConvertor. Maps become the kind's own type on the way.
func (a adapter) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	from := in.GetObjectKind().GroupVersionKind()
	gvk, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{from})
	if !ok {
		gvk = schema.GroupVersionKind{Version: target.Identifier()}
	}
	if gv, ok := target.(schema.GroupVersion); ok {
		gvk = gv.WithKind(from.Kind)
	}
	if !a.kind.Info().Custom && (!a.serves(gvk) || !a.serves(from)) { // a custom kind knows versions that are not served, too
		return nil, runtime.NewNotRegisteredErrForKind("kloop", gvk)
	}
	obj, err := a.proper(in, from)
	if err != nil {
		return nil, err
	}
	if from == gvk {
		return obj, nil
	}
	return a.kind.ConvertTo(context.Background(), obj, gvk)
}

// proper returns in as an object of the kind.
func (a adapter) proper(in runtime.Object, gvk schema.GroupVersionKind) (resource.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return in.(resource.Object), nil
	}
	out := a.kind.New(gvk)
	if o, ok := out.(runtime.Unstructured); ok {
		o.SetUnstructuredContent(u.Object)
		return out, nil
	}
	if !a.kind.Info().Custom {
		if err := codec.FromTree(u.Object, out); err != nil {
			return nil, fmt.Errorf("unable to convert unstructured object to %v: %w", gvk, err)
		}
		return out, nil
	}
	doc, err := codec.MarshalJSON(u.Object)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(doc, out)
}

func (a adapter) serves(gvk schema.GroupVersionKind) bool {
	i := a.kind.Info()
	if !a.of.Empty() && (gvk.Group == "") != (a.of.Group == "") {
		return false
	}
	if gvk == i.GVK {
		return true
	}
	for _, v := range i.Also {
		if v == gvk {
			return true
		}
	}
	return false
}

// Convert implements runtime.ObjectConvertor; the library does not use it.
func (a adapter) Convert(_, _, _ any) error { return fmt.Errorf("not supported") }

// ConvertFieldLabel implements runtime.ObjectConvertor; the library does not use it.
func (a adapter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default implements runtime.ObjectDefaulter. Defaults have no owner, and the caller sets them anyway.
func (a adapter) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (a adapter) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return a.kind.New(gvk), nil
}

// content returns an object as maps and lists.
func content(obj runtime.Object) (map[string]any, error) {
	doc, err := codec.MarshalJSON(obj)
	if err != nil {
		return nil, err
	}
	m, _, err := codec.UnmarshalTree(doc)
	if err != nil {
		return nil, fmt.Errorf("decode %T: %w", obj, err)
	}
	return m, nil
}
