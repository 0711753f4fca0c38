package node

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
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

// TestInitEndsWithItsPod: an init container that ends well because its pod is stopped has not brought the pod to its main containers: of
// those none has been lost.
func TestInitEndsWithItsPod(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"deleted": func(r *rig) {
			if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", nil); err != nil {
				r.t.Fatal(err)
			}
		},
		"too long": func(r *rig) { r.edit("p", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1)) }) },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				r.rt.mu.Lock()
				r.rt.stop = func(context.Context, string) { r.rt.exit("i", 0) }
				r.rt.mu.Unlock()
				r.pod("p", func(p *corev1.Pod) {
					p.Finalizers = []string{"example.com/keep"}
					p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "img"}}
				}, "a")
				r.until("init runs", func() bool { return r.rt.runs("i") })
				r.rests(5 * time.Second)
				end(r)
				st := r.reaches("p", corev1.PodFailed).Status
				if s := st.InitContainerStatuses[0].State.Terminated; s == nil || s.ExitCode != 0 {
					t.Errorf("its init container: %+v", st.InitContainerStatuses[0].State)
				}
				if s := st.ContainerStatuses[0].State.Waiting; s == nil || s.Reason != "PodInitializing" {
					t.Errorf("its main container: %+v", st.ContainerStatuses[0].State)
				}
			})
		})
	}
}
