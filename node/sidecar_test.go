package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
)

// probeOf is a probe by a command.
func probeOf(name string, failures int32) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{name}}}, PeriodSeconds: 1,
		TimeoutSeconds: 1, FailureThreshold: failures}
}

// answers has the runtime answer commands: those that are failing fail. It returns what was asked.
func (r *rig) answers(failing func(command string) bool) (asked func() string) {
	var list []string
	r.rt.mu.Lock()
	defer r.rt.mu.Unlock()
	r.rt.exec = func(q *cri.ExecSyncRequest) *cri.ExecSyncResponse { // r.rt is locked
		list = append(list, q.Cmd[0])
		if failing != nil && failing(q.Cmd[0]) {
			return &cri.ExecSyncResponse{ExitCode: 1}
		}
		return &cri.ExecSyncResponse{}
	}
	return func() string {
		r.rt.mu.Lock()
		defer r.rt.mu.Unlock()
		return strings.Join(list, " ")
	}
}

// A sidecar's probes do what a main container's do: what comes after it waits until it has started up, the pod is ready when it is, and
// it starts anew when it is sick, with the grace of the probe.
func TestProbesOfContainers(t *testing.T) {
	for _, side := range []bool{false, true} {
		t.Run(fmt.Sprintf("sidecar %t", side), func(t *testing.T) {
			simulate(t, func(r *rig) {
				var failing []string // r.rt is locked
				asked := r.answers(func(command string) bool { return slices.Contains(failing, command) })
				fails := func(commands ...string) {
					r.rt.mu.Lock()
					defer r.rt.mu.Unlock()
					failing = commands
				}
				fails("up", "ready")
				r.pod("p", func(p *corev1.Pod) {
					p.Spec.TerminationGracePeriodSeconds = new(int64(500))
					c := corev1.Container{Name: "c", Image: "img", ImagePullPolicy: corev1.PullIfNotPresent, StartupProbe: probeOf("up", 1000),
						LivenessProbe: probeOf("live", 3), ReadinessProbe: probeOf("ready", 1)}
					c.LivenessProbe.TerminationGracePeriodSeconds = new(int64(5))
					if side {
						c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
						p.Spec.InitContainers = append(p.Spec.InitContainers, c)
					} else {
						p.Spec.Containers = append(p.Spec.Containers, c)
					}
				}, "main")
				status := func() (s corev1.ContainerStatus) {
					for _, s := range append(r.get("p").Status.InitContainerStatuses, r.get("p").Status.ContainerStatuses...) {
						if s.Name == "c" {
							return s
						}
					}
					return s
				}
				r.until("it runs", func() bool { return status().State.Running != nil })
				r.rests(time.Minute)
				if s := status(); *s.Started || s.Ready || strings.Contains(asked(), "live") || side != (r.rt.newest("main") == nil) {
					t.Errorf("while it starts up: %+v, asked %s", s, asked())
				}
				fails("ready")
				r.reaches("p", corev1.PodRunning)
				r.rests(time.Minute)
				if s := status(); !*s.Started || s.Ready || conditionOf(r.get("p"), corev1.PodReady) == corev1.ConditionTrue {
					t.Errorf("it is not ready, and the pod is: %+v", r.get("p").Status)
				}
				fails()
				r.until("the pod is ready", func() bool { return conditionOf(r.get("p"), corev1.PodReady) == corev1.ConditionTrue })
				fails("live")
				r.until("it runs anew", func() bool { return status().RestartCount == 1 && status().State.Running != nil })
				fails()
				r.rt.mu.Lock()
				if len(r.rt.stops) != 1 || r.rt.stops[0].Timeout != 5 {
					t.Errorf("stops: %v", r.rt.stops)
				}
				r.rt.mu.Unlock()
				r.until("the pod is ready again", func() bool { return conditionOf(r.get("p"), corev1.PodReady) == corev1.ConditionTrue })
				if n := r.get("p").Status.ContainerStatuses[0].RestartCount; n != 0 {
					t.Errorf("the main container was restarted %d times", n)
				}
			})
		})
	}
}

// A sidecar's hooks are called: the first before what comes after it starts, the other when the pod ends.
func TestHooksOfSidecars(t *testing.T) {
	simulate(t, func(r *rig) {
		asked := r.answers(nil)
		does := func(name string) *corev1.LifecycleHandler {
			return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{name}}}
		}
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "side", Image: "img", ImagePullPolicy: corev1.PullIfNotPresent,
				RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Lifecycle: &corev1.Lifecycle{PostStart: does("post"), PreStop: does("pre")}}}
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: does("main")}
		}, "main")
		r.reaches("p", corev1.PodRunning)
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", nil); err != nil {
			t.Fatal(err)
		}
		r.until("it is gone", func() bool { return r.get("p") == nil })
		if got := asked(); got != "post main pre" {
			t.Errorf("called: %s", got)
		}
	})
}
