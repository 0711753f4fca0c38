package pods

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/features"
)

// TestGatedPodSaysSince checks the condition that a pod with scheduling gates is born with.
func TestGatedPodSaysSince(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.org/wait"}}}}
	Pods.PrepareForWrite(nil, "", p, nil)
	if len(p.Status.Conditions) != 1 || p.Status.Conditions[0].LastTransitionTime.IsZero() {
		t.Errorf("conditions = %+v, want one with a time", p.Status.Conditions)
	}
}

// Up to 1.36 a pod with resources of its own that are empty asks for nothing, whatever its containers do.
func TestClassOfEmptyResources(t *testing.T) {
	for minor, want := range map[int]corev1.PodQOSClass{36: corev1.PodQOSBestEffort, 37: corev1.PodQOSBurstable} {
		t.Run(fmt.Sprint("1.", minor), func(t *testing.T) {
			on, err := features.New(minor, nil)
			if err != nil {
				t.Fatal(err)
			}
			p := &corev1.Pod{Spec: corev1.PodSpec{Resources: &corev1.ResourceRequirements{}, Containers: []corev1.Container{{Name: "c",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}}}
			Pods.SetDefaults(on, p)
			if Pods.PrepareForWrite(on, "", p, nil); p.Status.QOSClass != want {
				t.Errorf("got %s, want %s", p.Status.QOSClass, want)
			}
		})
	}
}
