// Package pvprotection keeps volumes as long as they are bound.
//
//	reads   PersistentVolume
//	writes  PersistentVolume: the finalizer kubernetes.io/pv-protection
//	rule    a volume that is being deleted loses the finalizer once it is not bound; others have it
package pvprotection

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const finalizer = "kubernetes.io/pv-protection"

// Controller is the loop: wake on a volume.
var Controller = &loop.Controller[*corev1.PersistentVolume]{
	Name: "pv-protection",
	For:  kinds.PersistentVolumes,
	Skip: func(v *corev1.PersistentVolume) bool {
		return (v.DeletionTimestamp != nil) != slices.Contains(v.Finalizers, finalizer)
	},
	Writes: []resource.Kind{kinds.PersistentVolumes},
	Reconcile: func(ctx context.Context, c *loop.Ctx, v *corev1.PersistentVolume) (time.Duration, error) {
		next := resource.Clone(v)
		switch {
		case v.DeletionTimestamp == nil:
			next.Finalizers = append(next.Finalizers, finalizer)
		case v.Status.Phase == corev1.VolumeBound:
			c.Waiting("it is bound")
			return 0, nil
		default:
			next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == finalizer })
		}
		return 0, c.Update(ctx, kinds.PersistentVolumes, next)
	},
}
