package node

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/node/fits"
)

// A Rejection is why a node does not take a pod that was bound to it: by hand, or while another took its place.
type Rejection struct{ Reason, Message string }

// Admit says why a pod's resources can't be had here; nil: they can. See fits.Why.
func Admit(pod *corev1.Pod, node []*corev1.Pod, allocatable corev1.ResourceList, let func(*corev1.Pod) bool) *Rejection {
	if reason, message := fits.Why(pod, node, allocatable, let); reason != "" {
		return &Rejection{reason, message}
	}
	return nil
}
