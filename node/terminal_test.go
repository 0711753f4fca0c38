package node

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// The status of a pod that was deleted, or whose time is over, tells of its end, also when it never ran: who waits for that may have a
// finalizer on it. What had begun is lost, and what had not come to its turn waits.
func TestEndOfPodsThatNeverRan(t *testing.T) {
	never := func(c *corev1.Container) { c.Image, c.ImagePullPolicy = "absent:1", corev1.PullNever }
	for _, c := range []struct {
		name     string
		edit     func(p *corev1.Pod)
		deadline bool
		lost     []string // containers, in the order of the spec
		waiting  []string
	}{
		{"no image", func(p *corev1.Pod) { never(&p.Spec.Containers[0]) }, false, []string{"a"}, nil},
		{"no image, for too long", func(p *corev1.Pod) { never(&p.Spec.Containers[0]) }, true, []string{"a"}, nil},
		{"no image of an init container", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "first"}, {Name: "second", Image: "img", ImagePullPolicy: corev1.PullNever}}
			never(&p.Spec.InitContainers[0])
		}, false, []string{"first"}, []string{"second", "a"}},
		{"no claim", func(p *corev1.Pod) { uses("absent")(p) }, false, []string{"a"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				r.pod("p", func(p *corev1.Pod) {
					c.edit(p)
					p.Finalizers = []string{"example.com/wait"}
					if c.deadline {
						p.Spec.ActiveDeadlineSeconds = new(int64(30))
					}
				}, "a")
				r.rests(20 * time.Second)
				if p := r.get("p"); p.Status.Phase != corev1.PodPending || len(p.Status.ContainerStatuses) != 1 {
					t.Fatalf("before: %+v", p.Status)
				}
				if !c.deadline {
					if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", &metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				p := r.reaches("p", corev1.PodFailed)
				state := map[string]corev1.ContainerState{}
				for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
					state[s.Name] = s.State
				}
				for _, name := range c.lost {
					if end := state[name].Terminated; end == nil || end.Reason != "ContainerStatusUnknown" || end.ExitCode != 137 {
						t.Errorf("%s: %+v", name, state[name])
					}
				}
				for _, name := range c.waiting {
					if state[name].Waiting == nil {
						t.Errorf("%s: %+v", name, state[name])
					}
				}
				if c.deadline {
					if p.Status.Reason != "DeadlineExceeded" {
						t.Errorf("%s", p.Status.Reason)
					}
					return
				}
				next := resource.Clone(p)
				next.Finalizers = nil
				if _, err := r.Update(r.t.Context(), kinds.Pods, next, ""); err != nil {
					t.Fatal(err)
				}
				r.until("it is gone", func() bool { return r.get("p") == nil })
			})
		})
	}
}

// A pod goes although the runtime can't find a container of it that it lists: somebody removed its record.
func TestForgottenContainer(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }, "a")
		r.reaches("p", corev1.PodRunning)
		r.rt.exit("a", 137)
		r.reaches("p", corev1.PodFailed)
		r.rt.mu.Lock()
		r.rt.amnesia = true
		r.rt.mu.Unlock()
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", &metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.until("it is gone", func() bool { return r.get("p") == nil })
		lists := func() int {
			r.rt.mu.Lock()
			defer r.rt.mu.Unlock()
			return r.rt.lists
		}
		before := lists()
		r.rests(10 * time.Minute)
		if n := lists() - before; n > 700 { // the relist is once a second
			t.Errorf("the agent keeps at it: %d lists in ten minutes", n)
		}
	})
}

// A pod that its node evicts has failed, also if its containers end well.
func TestEvictionOfGoodContainers(t *testing.T) {
	simulate(t, func(r *rig) {
		r.rt.mu.Lock()
		r.rt.stop = func(context.Context, string) {
			r.rt.exit("a", 0)
			time.Sleep(time.Second) // the status may be written in between
		}
		r.rt.mu.Unlock()
		r.pod("p", func(p *corev1.Pod) { p.Spec.RestartPolicy = never }, "a")
		r.reaches("p", corev1.PodRunning)
		r.agent.evict.put(r.get("p"), &eviction{reason: "Evicted", grace: 5})
		if p := r.reaches("p", corev1.PodFailed); p.Status.Reason != "Evicted" {
			t.Errorf("it failed for %s", p.Status.Reason)
		}
	})
}

// A pod that its deadline ends has failed, also if its containers end well: it is initialized, and not because it is complete.
func TestDeadlineOfGoodContainers(t *testing.T) {
	simulate(t, func(r *rig) {
		r.rt.mu.Lock()
		r.rt.stop = func(context.Context, string) {
			r.rt.exit("a", 0)
			time.Sleep(time.Second) // the status may be written in between
		}
		var told []string
		r.status = func(p *corev1.Pod) {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodInitialized {
					told = append(told, string(c.Status)+c.Reason)
				}
			}
		}
		r.rt.mu.Unlock()
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.RestartPolicy, p.Spec.ActiveDeadlineSeconds = never, new(int64(5))
		}, "a")
		if p := r.reaches("p", corev1.PodFailed); p.Status.Reason != "DeadlineExceeded" {
			t.Errorf("it failed for %s", p.Status.Reason)
		}
		r.stop()
		if got := slices.Compact(told); !slices.Equal(got, []string{"True"}) {
			t.Errorf("initialized: %q", got)
		}
	})
}
