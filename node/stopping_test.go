package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
)

// A container that the runtime can't stop is tried again after a pause, and its pod says why it is still there.
func TestContainersThatDoNotStop(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
		r.rt.mu.Lock()
		r.rt.stuck = errors.New("ttrpc: closed")
		r.rt.mu.Unlock()
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", nil); err != nil {
			t.Fatal(err)
		}
		r.rests(time.Minute)
		r.rt.mu.Lock()
		tries := len(r.rt.stops)
		r.rt.stuck = nil
		r.rt.mu.Unlock()
		if tries < 4 || tries > 8 {
			t.Errorf("within a minute it was stopped %d times", tries)
		}
		if told := r.events("p"); !strings.Contains(told, "FailedKillPod") {
			t.Errorf("events: %s", told)
		}
		r.until("it is gone", func() bool { return r.get("p") == nil })
	})
}

// A grace beyond all durations is a long one.
func TestGraceWithoutEnd(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(9999999999)) }, "a")
		r.reaches("p", corev1.PodRunning)
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", nil); err != nil {
			t.Fatal(err)
		}
		r.until("it is gone", func() bool { return r.get("p") == nil })
		r.rt.mu.Lock()
		defer r.rt.mu.Unlock()
		if len(r.rt.stops) != 1 || r.rt.stops[0].Timeout != maxGrace {
			t.Errorf("it was stopped so: %v", r.rt.stops)
		}
	})
}

// A deleted pod that something keeps says at its end what the kubelet says: its sandbox is down, and of containers that never ran no
// more than that they are not ready.
func TestEndOfKeptPod(t *testing.T) {
	reason := func(p *corev1.Pod, of corev1.PodConditionType) string {
		for _, c := range p.Status.Conditions {
			if c.Type == of {
				return string(c.Status) + " " + c.Reason
			}
		}
		return ""
	}
	keep := func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} }
	for name, tt := range map[string]struct {
		edit  func(p *corev1.Pod)
		ready string
	}{
		"it ran": {keep, "False PodFailed"},
		"it never ran": {func(p *corev1.Pod) {
			keep(p)
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "none"}}}}
		}, "False ContainersNotReady"},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				r.rt.mu.Lock()
				r.rt.stop = func(context.Context, string) {
					r.rt.exit("a", 137)
					time.Sleep(time.Second) // the status may be written in between
				}
				r.rt.mu.Unlock()
				r.pod("p", tt.edit, "a")
				r.rests(5 * time.Second)
				if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", nil); err != nil {
					t.Fatal(err)
				}
				p := r.reaches("p", corev1.PodFailed)
				if got := reason(p, corev1.PodReady); got != tt.ready {
					t.Errorf("ready: %s, want %s", got, tt.ready)
				}
				if got := reason(p, corev1.PodReadyToStartContainers); got != "False PodSandboxNotReady" {
					t.Errorf("ready to start containers: %s", got)
				}
				r.edit("p", func(p *corev1.Pod) { p.Finalizers = nil })
				r.until("it is gone", func() bool { return r.get("p") == nil })
			})
		})
	}
}
