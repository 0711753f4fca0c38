package crd

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// SetDefaults implements resource.Kind.
func (k *Kind) SetDefaults(_ *features.Set, obj resource.Object) {
	if o, err := k.object(obj); err == nil {
		k.hub.fill(o.Object)
	}
}

// Since implements resource.Redefined.
func (k *Kind) Since() int64 { return k.since }

// PrepareForWrite implements resource.Kind.
func (k *Kind) PrepareForWrite(_ *features.Set, sub string, obj, old resource.Object) {
	o, err := k.object(obj)
	if err != nil {
		return
	}
	var was *Object
	if old != nil {
		if was, err = k.object(old); err != nil {
			return
		}
	}
	switch {
	case sub == "status" && was != nil:
		settleStatus(o, was)
	case sub == "" && k.at.hasStatus():
		delete(o.Object, "status")
		if was != nil {
			if st, ok := was.Object["status"]; ok {
				o.Object["status"] = st
			}
		}
	}
}

// settleStatus makes o the old object with the status and the field owners of o.
func settleStatus(o, was *Object) {
	status, has := o.Object["status"]
	owners, owned, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata", "managedFields")
	o.Object = was.shallow().Object
	if meta, ok := o.Object["metadata"].(map[string]any); ok {
		if delete(meta, "managedFields"); owned {
			meta["managedFields"] = owners
		}
	}
	if delete(o.Object, "status"); has {
		o.Object["status"] = status
	}
}
