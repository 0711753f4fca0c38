package crd

import (
	"context"
	"fmt"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// New implements resource.Kind.
func (k *Kind) New(gvk schema.GroupVersionKind) resource.Object {
	v := k.find(gvk)
	if v == nil {
		v = k.hub
	}
	o := &Object{read: v}
	o.Object = map[string]any{}
	o.SetGroupVersionKind(v.gvk)
	return o
}

// object returns obj as this package's type; foreign trees are taken as they are.
func (f *family) object(obj resource.Object) (*Object, error) {
	switch o := obj.(type) {
	case *Object:
		return o, nil
	case runtime.Unstructured:
		out := &Object{read: f.find(obj.GetObjectKind().GroupVersionKind())}
		out.Object = o.UnstructuredContent()
		return out, nil
	}
	return nil, fmt.Errorf("%T is no custom resource", obj)
}

// ConvertTo implements resource.Kind. The result shares memory with obj.
func (k *Kind) ConvertTo(_ context.Context, obj resource.Object, gvk schema.GroupVersionKind) (resource.Object, error) {
	from := obj.GetObjectKind().GroupVersionKind()
	if from == gvk {
		return obj, nil
	}
	to := k.find(gvk)
	o, err := k.object(obj)
	switch {
	case err != nil:
		return nil, err
	case to == nil || from.Group != gvk.Group:
		return nil, fmt.Errorf("convert %s to %s: there is no such version", from, gvk)
	}
	if c := k.def.Spec.Conversion; c != nil && c.Strategy == v1.WebhookConverter {
		return nil, fmt.Errorf("convert %s to %s: conversion by webhook is not supported yet", from, gvk)
	}
	return k.renamed(o, to)
}

// renamed gives a copy of an object another version, which may know fewer fields. Objects on their way into the
// store have the defaults of their own version first.
func (f *family) renamed(o *Object, to *version) (*Object, error) {
	out := &Object{*o.DeepCopy(), to}
	if o.read != nil && to == f.hub {
		o.read.fill(out.Object)
	}
	out.SetGroupVersionKind(to.gvk)
	if _, err := to.coerce(out.Object, false, false); err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", o.GroupVersionKind(), to.gvk, err)
	}
	return out, nil
}

// Decode implements codec.Decoder: it reads what is stored, of whatever version, as the hub version.
func (k *Kind) Decode(data []byte) (resource.Object, error) {
	o := &Object{}
	if _, err := o.UnmarshalStrict(data); err != nil {
		return nil, fmt.Errorf("decode stored %s: %w", k.info.GR(), err)
	}
	return k.settled(o)
}

// Recast implements view.Recaster: it reads an object by this declaration that was read by an older one.
func (k *Kind) Recast(obj resource.Object) resource.Object {
	o, err := k.object(obj)
	if err != nil || o.read == k.hub {
		return obj
	}
	out, err := k.settled(&Object{*o.DeepCopy(), nil})
	if err != nil {
		return obj // as good as it was
	}
	return out
}

// settled prunes and defaults an object by its own version and makes it one of the hub version.
func (k *Kind) settled(o *Object) (resource.Object, error) {
	v := k.find(o.GroupVersionKind())
	if v == nil { // a version that is gone
		v = k.hub
	}
	o.read = v
	if _, err := v.coerce(o.Object, false, true); err != nil {
		return nil, fmt.Errorf("decode stored %s: %w", k.info.GR(), err)
	}
	v.fill(o.Object)
	if v == k.hub {
		o.SetGroupVersionKind(v.gvk)
		return o, nil
	}
	if c := k.def.Spec.Conversion; c != nil && c.Strategy == v1.WebhookConverter {
		return o, nil // ConvertTo tells
	}
	return k.renamed(o, k.hub)
}
