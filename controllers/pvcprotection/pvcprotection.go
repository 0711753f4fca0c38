// Package pvcprotection keeps claims as long as a pod uses them.
//
//	reads   PersistentVolumeClaim, Pod
//	writes  PersistentVolumeClaim: the finalizer kubernetes.io/pvc-protection
//	rule    a claim that is being deleted loses the finalizer once no pod that has a node uses it; others have it
package pvcprotection

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const finalizer = "kubernetes.io/pvc-protection"

// Controller is the loop: wake on a claim, and on pods that may have let go of one.
var Controller = &loop.Controller[*corev1.PersistentVolumeClaim]{
	Name: "pvc-protection",
	For:  kinds.PersistentVolumeClaims,
	Skip: func(p *corev1.PersistentVolumeClaim) bool {
		return (p.DeletionTimestamp != nil) != slices.Contains(p.Finalizers, finalizer)
	},
	Wake:   []loop.Wake{{Kind: kinds.Pods, Keys: released}},
	Writes: []resource.Kind{kinds.PersistentVolumeClaims},
	Reconcile: func(ctx context.Context, c *loop.Ctx, p *corev1.PersistentVolumeClaim) (time.Duration, error) {
		next := resource.Clone(p)
		if p.DeletionTimestamp == nil {
			next.Finalizers = append(next.Finalizers, finalizer)
			return 0, c.Update(ctx, kinds.PersistentVolumeClaims, next)
		}
		if pod := user(resource.List(c, kinds.Pods, p.Namespace), p); pod != nil {
			c.Waiting("pod %s uses it", pod.Name)
			return 0, nil
		}
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == finalizer })
		return 0, c.Update(ctx, kinds.PersistentVolumeClaims, next)
	},
}

// user is a pod on a node that uses the claim, or nil. A pod that has ended no longer does.
func user(list []*corev1.Pod, p *corev1.PersistentVolumeClaim) *corev1.Pod {
	for _, pod := range list {
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if slices.Contains(core.ClaimNames(pod), p.Name) {
			return pod
		}
	}
	return nil
}

// released wakes the claims of a pod that went or ended.
func released(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	p := c.Object().(*corev1.Pod)
	if c.New != nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		return
	}
	for _, name := range core.ClaimNames(p) {
		wake(p.Namespace, name)
	}
}
