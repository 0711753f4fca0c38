package pvcprotection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// users are the pods that name the claim. One that was made for an ephemeral volume is its own pod's alone.
func users(list []*corev1.Pod, claim *corev1.PersistentVolumeClaim) (found []*corev1.Pod) {
	for _, p := range list {
		if slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return core.ClaimName(p, &v) == claim.Name && (v.Ephemeral == nil || metav1.IsControlledBy(claim, p))
		}) {
			found = append(found, p)
		}
	}
	return found
}

// holds says that the pod, a user, keeps a claim under deletion: it is on a node, though it may have ended. A claim of an ephemeral
// volume goes when its pod is shut down: they may wait for each other.
func holds(p *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if p.Spec.NodeName == "" {
		return false
	}
	return !shut(p) || slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
	})
}

// shut says that the node is done with the pod, or that it was deleted by force.
func shut(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
}

// judged is the claim with a condition that says whether it is used; nil: it says so already.
func judged(claim *corev1.PersistentVolumeClaim, used bool, now metav1.Time) *corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue, LastTransitionTime: now,
		Reason: "NoPodsUsingPVC", Message: "No pods are currently referencing this PVC"}
	if used {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "PodUsingPVC", "A pod is currently referencing this PVC"
	}
	i := slices.IndexFunc(claim.Status.Conditions, func(x corev1.PersistentVolumeClaimCondition) bool { return x.Type == c.Type })
	if i >= 0 && claim.Status.Conditions[i].Status == c.Status {
		return nil
	}
	next := resource.Clone(claim)
	if i < 0 {
		next.Status.Conditions = append(next.Status.Conditions, c)
	} else {
		next.Status.Conditions[i] = c
	}
	return next
}
