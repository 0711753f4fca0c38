package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestInitializedOfAFailedPod: a pod that fails by an init container says which have not run, in the words of one that still waits.
func TestInitializedOfAFailedPod(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "img"}, {Name: "k", Image: "img"}}
		}, "a")
		initialized := func() (got corev1.PodCondition) {
			for _, c := range r.get("p").Status.Conditions {
				if c.Type == corev1.PodInitialized {
					got = c
				}
			}
			return got
		}
		const want = "containers with incomplete status: [i k]"
		for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodFailed} {
			if phase == corev1.PodFailed {
				r.until("i runs", func() bool { return r.rt.runs("i") })
				r.rt.exit("i", 1)
			}
			r.reaches("p", phase)
			r.until("it says so", func() bool { return initialized().Message == want })
			if c := initialized(); c.Status != corev1.ConditionFalse || c.Reason != "ContainersNotInitialized" {
				t.Errorf("%s: %+v", phase, c)
			}
		}
	})
}
