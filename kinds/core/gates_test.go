package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestGatedPodSaysSince checks the condition that a pod with scheduling gates is born with.
func TestGatedPodSaysSince(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.org/wait"}}}}
	Pods.PrepareForWrite(nil, "", p, nil)
	if len(p.Status.Conditions) != 1 || p.Status.Conditions[0].LastTransitionTime.IsZero() {
		t.Errorf("conditions = %+v, want one with a time", p.Status.Conditions)
	}
}
