package node

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// lose has the runtime not know a container's state any more.
func (f *fakeRuntime) lose(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.list {
		if c.Metadata.Name == name {
			c.State = cri.ContainerState_CONTAINER_UNKNOWN
		}
	}
}

// TestLostContainer: a container whose state the runtime does not know may run. None is started beside it, and its pod has not ended.
func TestLostContainer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy corev1.RestartPolicy
		phase  corev1.PodPhase
	}{
		{"it runs again", corev1.RestartPolicyAlways, corev1.PodRunning},
		{"it does not", never, corev1.PodFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				r.pod("p", func(p *corev1.Pod) { p.Spec.RestartPolicy = tt.policy }, "c")
				first := r.reaches("p", corev1.PodRunning).Status.ContainerStatuses[0].ContainerID
				free := make(chan struct{})
				r.rt.mu.Lock()
				r.rt.stop = func(ctx context.Context, _ string) {
					select {
					case <-free:
					case <-ctx.Done():
					}
				}
				r.rt.mu.Unlock()
				r.rt.lose("c")
				stops := func() int {
					r.rt.mu.Lock()
					defer r.rt.mu.Unlock()
					return len(r.rt.stops)
				}
				r.until("it is stopped", func() bool { return stops() > 0 })
				r.rests(20 * time.Second)
				s := r.get("p").Status
				if s.Phase != corev1.PodRunning || s.ContainerStatuses[0].ContainerID != first {
					t.Errorf("while it is being stopped the pod is %+v", s)
				}
				close(free)
				r.until("it has ended", func() bool {
					s = r.get("p").Status
					again := s.ContainerStatuses[0].State.Running != nil && s.ContainerStatuses[0].ContainerID != first
					return s.Phase == tt.phase && again == (tt.policy != never)
				})
				r.rests(time.Minute)
				if n := stops(); n != 1 {
					t.Errorf("it was stopped %d times", n)
				}
			})
		})
	}
	t.Run("deleted", func(t *testing.T) {
		simulate(t, func(r *rig) {
			r.pod("p", nil, "c")
			r.reaches("p", corev1.PodRunning)
			r.rt.lose("c")
			r.remove("p")
			r.until("it is gone", func() bool { return r.get("p") == nil })
			r.rt.mu.Lock()
			defer r.rt.mu.Unlock()
			if len(r.rt.stops) == 0 || len(r.rt.list) > 0 {
				t.Errorf("%d stops, %d containers are left", len(r.rt.stops), len(r.rt.list))
			}
		})
	})
}
