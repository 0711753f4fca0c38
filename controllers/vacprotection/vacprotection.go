// Package vacprotection keeps volume attributes classes as long as a volume or a claim uses them.
//
//	reads   VolumeAttributesClass, PersistentVolumeClaim, PersistentVolume
//	writes  VolumeAttributesClass: the finalizer kubernetes.io/vac-protection
//	rule    a class that is being deleted loses the finalizer once nothing names it; others have it
package vacprotection

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const finalizer = "kubernetes.io/vac-protection"

// Controller is the loop: wake on a class, and on the claims and volumes that name it or did.
var Controller = &loop.Controller[*storagev1.VolumeAttributesClass]{
	Name: "volumeattributesclass-protection",
	For:  kinds.VolumeAttributesClasses,
	Skip: func(v *storagev1.VolumeAttributesClass) bool {
		return (v.DeletionTimestamp != nil) != slices.Contains(v.Finalizers, finalizer)
	},
	Wake:   []loop.Wake{loop.Each(kinds.PersistentVolumeClaims, named), loop.Each(kinds.PersistentVolumes, named)},
	Writes: []resource.Kind{kinds.VolumeAttributesClasses},
	Reconcile: func(ctx context.Context, c *loop.Ctx, v *storagev1.VolumeAttributesClass) (time.Duration, error) {
		next := resource.Clone(v)
		if v.DeletionTimestamp == nil {
			next.Finalizers = append(next.Finalizers, finalizer)
			return 0, c.Update(ctx, kinds.VolumeAttributesClasses, next)
		}
		for _, k := range []resource.Kind{kinds.PersistentVolumeClaims, kinds.PersistentVolumes} {
			for obj := range c.Each(k, "") {
				if slices.Contains(classes(obj), v.Name) {
					c.Waiting("%s uses it", loop.KeyOf(k, obj))
					return 0, nil
				}
			}
		}
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == finalizer })
		return 0, c.Update(ctx, kinds.VolumeAttributesClasses, next)
	},
}

func named(obj resource.Object, _ resource.Reader, wake func(ns, name string)) {
	for _, name := range classes(obj) {
		wake("", name)
	}
}

// classes are the names of those that a claim or a volume has, wants, or is being changed to.
func classes(obj resource.Object) (list []string) {
	add := func(name *string) {
		if name != nil && *name != "" {
			list = append(list, *name)
		}
	}
	switch obj := obj.(type) {
	case *corev1.PersistentVolume:
		add(obj.Spec.VolumeAttributesClassName)
	case *corev1.PersistentVolumeClaim:
		add(obj.Spec.VolumeAttributesClassName)
		add(obj.Status.CurrentVolumeAttributesClassName)
		if m := obj.Status.ModifyVolumeStatus; m != nil {
			add(&m.TargetVolumeAttributesClassName)
		}
	}
	return list
}
