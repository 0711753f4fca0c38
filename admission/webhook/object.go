package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

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
	after := r.Kind.New(kind)
	whole := r.Sub != "scale" && !r.Called()
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
