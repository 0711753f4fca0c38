package node

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
)

// A pod that is to end does not wait for a hook of its start, nor for a container that takes its time to restart: as long as they would
// take is an hour, and its grace is five seconds.
func TestPodsThatEndWaitForNothing(t *testing.T) {
	five := int64(5)
	deleted := func(r *rig) {
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", &metav1.DeleteOptions{GracePeriodSeconds: &five}); err != nil {
			r.t.Fatal(err)
		}
		r.until("it is gone", func() bool { return r.get("p") == nil })
	}
	for _, c := range []struct {
		name string
		hook bool
		end  func(r *rig)
	}{
		{"a hook, and it is deleted", true, deleted},
		{"a restart, and it is deleted", false, deleted},
		{"a hook, and it is removed by force", true, func(r *rig) {
			if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
				r.t.Fatal(err)
			}
			r.until("nothing is left", func() bool { n, boxes := r.rt.count(); return n+boxes == 0 })
		}},
		{"a restart, and it is evicted", false, func(r *rig) {
			r.agent.evict.put(r.get("p"), &eviction{reason: "Evicted", grace: 5})
			r.reaches("p", corev1.PodFailed)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				r.rt.mu.Lock()
				r.rt.stop = func(ctx context.Context, _ string) {
					r.rt.mu.Lock()
					grace := r.rt.stops[len(r.rt.stops)-1].Timeout
					r.rt.mu.Unlock()
					select {
					case <-ctx.Done():
					case <-time.After(time.Duration(grace) * time.Second): // it takes no notice of SIGTERM
					}
				}
				r.rt.mu.Unlock()
				r.pod("p", func(p *corev1.Pod) {
					p.Spec.TerminationGracePeriodSeconds = new(int64(3600))
					if c.hook {
						p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{
							Sleep: &corev1.SleepAction{Seconds: 3600}}}
					}
				}, "a")
				r.until("it runs", func() bool { return r.rt.runs("a") })
				if !c.hook {
					r.reaches("p", corev1.PodRunning)
					r.edit("p", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "img:2" })
				}
				r.rests(10 * time.Second)
				began := time.Now()
				c.end(r)
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("its end took %s", took)
				}
			})
		})
	}
}
