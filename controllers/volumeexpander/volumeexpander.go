// Package volumeexpander tells who waits for a larger volume that drivers enlarge, not the cluster.
//
//	reads   PersistentVolumeClaim, PersistentVolume
//	writes  nothing but events
//	rule    a bound claim that asks for more than it has, and that nobody has begun to enlarge, has an event that says so
package volumeexpander

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a claim.
var Controller = &loop.Controller[*corev1.PersistentVolumeClaim]{
	Name: "volume-expander",
	For:  kinds.PersistentVolumeClaims,
	Skip: func(p *corev1.PersistentVolumeClaim) bool { return !wants(p) },
	Reconcile: func(_ context.Context, c *loop.Ctx, p *corev1.PersistentVolumeClaim) (time.Duration, error) {
		v := resource.Get(c, kinds.PersistentVolumes, "", p.Spec.VolumeName)
		if v == nil || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != p.UID {
			return 0, fmt.Errorf("persistent Volume is not bound to PVC being updated : %s/%s", p.Namespace, p.Name)
		}
		c.Event(kinds.PersistentVolumeClaims, p, corev1.EventTypeNormal, "ExternalExpanding",
			"waiting for an external controller to expand this PVC")
		return 0, nil
	},
}

// wants says whether the claim asks for more than it has and nobody has begun to give it that.
func wants(p *corev1.PersistentVolumeClaim) bool {
	want, have := p.Spec.Resources.Requests[corev1.ResourceStorage], p.Status.Capacity[corev1.ResourceStorage]
	return p.Status.Phase == corev1.ClaimBound && want.Cmp(have) > 0 && len(p.Status.AllocatedResourceStatuses) == 0 &&
		!slices.ContainsFunc(p.Status.Conditions, resizing)
}

// resizing says that the condition is of a growth that was begun.
func resizing(c corev1.PersistentVolumeClaimCondition) bool {
	switch c.Type {
	case corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
		corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
		return true
	}
	return false
}
