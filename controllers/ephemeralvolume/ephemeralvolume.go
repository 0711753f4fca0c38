// Package ephemeralvolume makes the claims of volumes that live as long as their pod.
//
//	reads   Pod, PersistentVolumeClaim
//	writes  PersistentVolumeClaim: create
//	rule    every ephemeral volume of a pod has its claim <pod>-<volume>, owned by the pod
package ephemeralvolume

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a Pod that has such volumes, and when one of its claims goes.
var Controller = &loop.Controller[*corev1.Pod]{
	Name: "ephemeral-volume",
	For:  kinds.Pods,
	Skip: func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil || !slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
	},
	Wake:   []loop.Wake{{Kind: kinds.PersistentVolumeClaims, Keys: gone}},
	Writes: []resource.Kind{kinds.PersistentVolumeClaims},
	Reconcile: func(ctx context.Context, c *loop.Ctx, p *corev1.Pod) (time.Duration, error) {
		for i := range p.Spec.Volumes {
			v := &p.Spec.Volumes[i]
			if err := provide(ctx, c, p, v); err != nil {
				c.Event(kinds.Pods, p, corev1.EventTypeWarning, "FailedBinding", "ephemeral volume %s: %v", v.Name, err)
				return 0, fmt.Errorf("pod %s/%s, ephemeral volume %s: %w", p.Namespace, p.Name, v.Name, err)
			}
		}
		return 0, nil
	},
}

func provide(ctx context.Context, c *loop.Ctx, p *corev1.Pod, v *corev1.Volume) error {
	if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
		return nil
	}
	name := p.Name + "-" + v.Name
	if cur := resource.Get(c, kinds.PersistentVolumeClaims, p.Namespace, name); cur != nil {
		if metav1.IsControlledBy(cur, p) {
			return nil
		}
		return fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", p.Namespace, name, p.Namespace, p.Name)
	}
	t := v.Ephemeral.VolumeClaimTemplate.DeepCopy()
	_, err := c.Create(ctx, kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{Spec: t.Spec, ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: name, Labels: t.Labels, Annotations: t.Annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, kinds.Pods.GVK)}}})
	if err != nil {
		return fmt.Errorf("create PVC %s: %w", name, err)
	}
	return nil
}

func gone(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	if c.New != nil {
		return
	}
	if ref := metav1.GetControllerOfNoCopy(c.Old); ref != nil && ref.Kind == "Pod" {
		wake(c.Old.GetNamespace(), ref.Name)
	}
}
