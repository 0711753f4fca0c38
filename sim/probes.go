package sim

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// Probes are not run: they pass, at the times at which a node agent would ask first, but for those that ProbeFail names.

// A failing is a probe that fails from some time after its container's start on.
type failing struct {
	kind, container string // container "": of all
	from            time.Duration
}

// failings reads "liveness", "readiness/web", "startup/web=30s", with commas between them.
func failings(text string) (list []failing) {
	for part := range strings.SplitSeq(text, ",") {
		name, from, _ := strings.Cut(strings.TrimSpace(part), "=")
		kind, container, _ := strings.Cut(name, "/")
		list = append(list, failing{strings.ToLower(kind), container, length(from, from != "")})
	}
	return list
}

// fails says whether a container's probe of the kind fails, and from when on.
func (f *fate) fails(kind, container string) (from time.Duration, yes bool) {
	for _, x := range f.failing {
		if x.kind == kind && (x.container == "" || x.container == container) {
			return x.from, true
		}
	}
	return 0, false
}

func every(p *corev1.Probe) time.Duration {
	return time.Duration(max(p.PeriodSeconds, 1)) * time.Second
}
func first(p *corev1.Probe) time.Duration { return time.Duration(p.InitialDelaySeconds) * time.Second }

// broken is the time at which a probe has failed often enough, if it fails from a time on.
func broken(p *corev1.Probe, from time.Duration) time.Duration {
	return max(from, first(p)) + time.Duration(max(p.FailureThreshold, 1)-1)*every(p)
}

// A health is the state of a container's probes some time after its start: whether it has started, is ready, or is to be
// killed, and when that changes.
type health struct {
	started, ready bool
	killed         string        // the probe because of which; "": it lives on
	next           time.Duration // 0: nothing changes
}

// healthOf is pure. after is the time for which the container runs.
func (f *fate) healthOf(c *corev1.Container, after time.Duration) (h health) {
	at := func(t time.Duration) bool { // is it past t? if not, something changes then
		if after >= t {
			return true
		}
		if left := t - after; h.next == 0 || left < h.next {
			h.next = left
		}
		return false
	}
	up := time.Duration(0)
	if p := c.StartupProbe; p != nil {
		if from, bad := f.fails("startup", c.Name); bad {
			if at(broken(p, from)) {
				h.killed = "startup"
			}
			return h
		}
		up = first(p)
	}
	if !at(up) {
		return h
	}
	h.started = true
	if p := c.LivenessProbe; p != nil {
		if from, bad := f.fails("liveness", c.Name); bad && at(max(broken(p, max(from, up)), 0)) {
			h.killed = "liveness"
			return h
		}
	}
	ready := max(f.ready, up)
	if p := c.ReadinessProbe; p != nil {
		ready = max(ready, max(up, first(p))+time.Duration(max(p.SuccessThreshold, 1)-1)*every(p))
		if from, bad := f.fails("readiness", c.Name); bad && (from <= ready || at(broken(p, from))) {
			return h
		}
	}
	h.ready = at(ready) && !f.unready
	return h
}

// probe applies what a container's probes say. It says whether the container lives on.
func (l *life) probe(c *corev1.Container, s *corev1.ContainerStatus) bool {
	r := s.State.Running
	h := l.fate.healthOf(c, l.now.Sub(r.StartedAt.Time))
	if h.killed != "" {
		name := strings.ToUpper(h.killed[:1]) + h.killed[1:]
		l.tell(corev1.EventTypeWarning, c.Name, "Unhealthy", name+" probe failed: simulated failure")
		l.tell(corev1.EventTypeNormal, c.Name, "Killing", fmt.Sprintf("Container %s failed %s probe, will be restarted", c.Name, h.killed))
		l.end(s, 137)
		return false
	}
	if _, bad := l.fate.fails("readiness", c.Name); bad && !h.ready && s.Ready && c.ReadinessProbe != nil {
		l.tell(corev1.EventTypeWarning, c.Name, "Unhealthy", "Readiness probe failed: simulated failure")
	}
	s.Started, s.Ready = &h.started, h.ready
	if h.next > 0 {
		l.due(h.next)
	}
	return true
}

// deadline ends a pod that has been active for longer than it may.
func (l *life) deadline() bool {
	d := l.pod.Spec.ActiveDeadlineSeconds
	if d == nil || l.st.StartTime == nil || !l.passed(l.st.StartTime.Time, time.Duration(*d)*time.Second) {
		return false
	}
	const text = "Pod was active on the node longer than the specified deadline"
	l.tell(corev1.EventTypeNormal, "", "DeadlineExceeded", text)
	l.kill()
	l.st.Reason, l.st.Message = "DeadlineExceeded", text
	return true
}

// kill ends all containers and the pod. Those that never began are lost, as far as the pod had come.
func (l *life) kill() {
	turn := true
	end := func(s *corev1.ContainerStatus) {
		switch {
		case s.State.Running != nil:
			l.end(s, 137)
		case s.State.Terminated == nil && turn:
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown",
				Message: "The container could not be located when the pod was terminated", ExitCode: 137}}
		}
	}
	for i := range l.st.InitContainerStatuses {
		s := &l.st.InitContainerStatuses[i]
		t, sides := s.State.Terminated, s.State.Running != nil && i < len(l.pod.Spec.InitContainers) &&
			podspec.Sidecar(&l.pod.Spec.InitContainers[i])
		end(s)
		turn = turn && (sides || t != nil && t.ExitCode == 0)
	}
	for i := range l.st.ContainerStatuses {
		end(&l.st.ContainerStatuses[i])
	}
	l.finish(corev1.PodFailed)
}

// A saying is an event to be told.
type saying struct {
	typ, container, reason, text string
}

func (l *life) tell(typ, container, reason, text string) {
	if l.mute {
		return
	}
	l.said = append(l.said, saying{typ, container, reason, text})
}

// field is the part of the pod that an event about a container points at.
func field(p *corev1.Pod, container string) string {
	for i := range p.Spec.InitContainers {
		if p.Spec.InitContainers[i].Name == container {
			return "spec.initContainers{" + container + "}"
		}
	}
	if container == "" {
		return ""
	}
	return "spec.containers{" + container + "}"
}
