package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/cel"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// encode is an object in JSON with the given kind. The object stays as it is.
func encode(obj runtime.Object, kind schema.GroupVersionKind) (json.RawMessage, error) {
	if isNil(obj) {
		return nil, nil
	}
	if obj.GetObjectKind().GroupVersionKind() != kind {
		obj = obj.DeepCopyObject()
		obj.GetObjectKind().SetGroupVersionKind(kind)
	}
	return codec.MarshalJSON(obj)
}

// isNil also finds typed nils.
func isNil(obj runtime.Object) bool {
	return obj == nil || reflect.ValueOf(obj).Kind() == reflect.Pointer && reflect.ValueOf(obj).IsNil()
}

// adopt makes the request's object what a webhook made of its text. changed says whether that is something else.
func adopt(ctx context.Context, r *admission.Request, kind schema.GroupVersionKind, doc []byte) (changed bool, err error) {
	if r.Target != nil {
		return overwrite(r.Target, doc)
	}
	seen, err := cel.Seen(ctx, r, r.Object, kind)
	if err != nil {
		return false, err
	}
	before, ok := seen.(resource.Object)
	if !ok {
		return false, fmt.Errorf("%T has no metadata", seen)
	}
	whole := r.Sub != "scale" && !r.Called()
	into, err := typed(r, kind, doc, whole)
	if err != nil {
		return false, err
	}
	after := r.Kind.New(into)
	if !whole {
		after = reflect.New(reflect.TypeOf(before).Elem()).Interface().(resource.Object)
	}
	if _, err := codec.UnmarshalJSON(doc, after); err != nil {
		return false, err
	}
	if whole && r.Kind.Info().Namespaced && after.GetNamespace() != r.Namespace {
		return false, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	keepOwners(r, before, after)
	changed = !same(before, after)
	r.Object, err = cel.Adopt(ctx, r, before, after)
	return changed, err
}

// typed is the type that a text says it is of: that which was sent, or for a whole object another version of it.
func typed(r *admission.Request, sent schema.GroupVersionKind, doc []byte, whole bool) (schema.GroupVersionKind, error) {
	var said metav1.TypeMeta
	if err := json.Unmarshal(doc, &said); err != nil {
		return sent, err
	}
	custom, got := r.Kind.Info().Custom, said.GroupVersionKind()
	if !custom { // what is built in is known without
		if got.Kind == "" {
			got.Kind = sent.Kind
		}
		if got.Version == "" {
			got.Group, got.Version = sent.Group, sent.Version
		}
	}
	switch {
	case got == sent, whole && slices.Contains(r.Kind.Info().Served(), got):
		return got, nil
	case custom && got.GroupVersion() == sent.GroupVersion() && got.Kind != "":
		return sent, apierrors.NewInvalid(got.GroupKind(), r.Name,
			field.ErrorList{field.Invalid(field.NewPath("kind"), got.Kind, "must be "+sent.Kind)})
	case custom:
		return sent, fmt.Errorf("%v is not suitable for converting to %q", got, sent.GroupVersion())
	}
	return sent, fmt.Errorf("no kind %q is registered for version %q", got.Kind, got.GroupVersion())
}

// keepOwners takes back what a webhook did to the ownership of fields, if that is no longer readable.
func keepOwners(r *admission.Request, before, after resource.Object) {
	if equality.Semantic.DeepEqual(before.GetManagedFields(), after.GetManagedFields()) {
		return
	}
	err := managedfields.ValidateManagedFields(after.GetManagedFields())
	if err == nil {
		return
	}
	after.SetManagedFields(before.GetManagedFields())
	if r.Warn != nil {
		r.Warn(fmt.Sprintf(".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating "+
			"admission controller; please fix your requests: %v", err))
	}
}

// same compares what two objects say.
func same(a, b resource.Object) bool {
	x, ok := a.(runtime.Unstructured)
	y, too := b.(runtime.Unstructured)
	if ok && too {
		return equality.Semantic.DeepEqual(x.UnstructuredContent(), y.UnstructuredContent())
	}
	return equality.Semantic.DeepEqual(a, b)
}

// overwrite replaces what an object says, where others hold on to the object itself.
func overwrite(obj runtime.Object, doc []byte) (changed bool, err error) {
	next := reflect.New(reflect.TypeOf(obj).Elem())
	if _, err := codec.UnmarshalJSON(doc, next.Interface()); err != nil {
		return false, err
	}
	changed = !equality.Semantic.DeepEqual(obj, next.Interface())
	reflect.ValueOf(obj).Elem().Set(next.Elem())
	return changed, nil
}
