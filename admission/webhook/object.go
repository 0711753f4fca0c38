package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// in returns an object of the request as a webhook is to see it: in another version, or the scale of it. Bodies of
// calls are what they are. It may share memory with obj and must not be changed.
func in(ctx context.Context, r *admission.Request, obj resource.Object, kind schema.GroupVersionKind) (resource.Object, error) {
	switch {
	case obj == nil:
		return nil, nil
	case r.Sub == "scale":
		return scaleOf(r.Kind, obj)
	case called(r):
		return obj, nil
	}
	out, err := r.Kind.ConvertTo(ctx, obj, kind)
	if err != nil {
		return nil, fmt.Errorf("convert to %s: %w", kind, err)
	}
	return out, nil
}

// scaleOf makes the scale subresource of an object.
func scaleOf(k resource.Kind, obj resource.Object) (resource.Object, error) {
	v, ok := k.ScaleOf(obj)
	if !ok {
		return nil, fmt.Errorf("%s %s has no scale", k.Info().GVK.Kind, obj.GetName())
	}
	sc := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp()},
		Spec:   autoscalingv1.ScaleSpec{Replicas: v.Replicas},
		Status: autoscalingv1.ScaleStatus{Replicas: v.Current, Selector: v.Selector},
	}
	sc.SetGroupVersionKind(scaleKind)
	return sc, nil
}

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
	switch {
	case r.Target != nil:
		return overwrite(r.Target, doc)
	case r.Sub == "scale":
		return rescale(r, doc)
	case called(r):
		return overwrite(r.Object, doc)
	}
	next := r.Kind.New(kind)
	if _, err := codec.UnmarshalJSON(doc, next); err != nil {
		return false, err
	}
	hub, err := r.Kind.ConvertTo(ctx, next, r.Kind.Info().GVK)
	if err != nil {
		return false, err
	}
	if r.Kind.Info().Namespaced && hub.GetNamespace() != r.Namespace {
		return false, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	keepOwners(r, hub)
	changed = !same(r.Object, hub)
	r.Kind.SetDefaults(hub)
	r.Object = hub
	return changed, nil
}

// keepOwners takes back what a webhook did to the ownership of fields, if that is no longer readable.
func keepOwners(r *admission.Request, obj resource.Object) {
	before, after := r.Object.GetManagedFields(), obj.GetManagedFields()
	if equality.Semantic.DeepEqual(before, after) {
		return
	}
	err := managedfields.ValidateManagedFields(after)
	if err == nil {
		return
	}
	obj.SetManagedFields(before)
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

// rescale takes over what a webhook may change of a scale: the replicas.
func rescale(r *admission.Request, doc []byte) (changed bool, err error) {
	var sc autoscalingv1.Scale
	if _, err := codec.UnmarshalJSON(doc, &sc); err != nil {
		return false, err
	}
	if was, _ := r.Kind.ScaleOf(r.Object); was.Replicas == sc.Spec.Replicas {
		return false, nil
	}
	r.Kind.SetScale(r.Object, sc.Spec.Replicas)
	return true, nil
}
