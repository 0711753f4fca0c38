package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readiness sets which containers are ready, and the pod's conditions.
func (l *life) readiness() {
	all := l.st.Phase == corev1.PodRunning
	for i := range l.st.ContainerStatuses {
		s := &l.st.ContainerStatuses[i]
		r := s.State.Running
		s.Ready = r != nil && !l.fate.unready && l.passed(r.StartedAt.Time, l.readyAfter(s.Name))
		if r != nil {
			s.Started = new(true)
		}
		all = all && s.Ready
	}
	done := corev1.ConditionTrue
	for i := range l.st.InitContainerStatuses {
		if !l.st.InitContainerStatuses[i].Ready {
			done, all = corev1.ConditionFalse, false
		}
	}
	reason := ""
	if done == corev1.ConditionFalse {
		reason = "ContainersNotInitialized"
	}
	set := func(t corev1.PodConditionType, ok bool, reason string) {
		s := corev1.ConditionTrue
		if !ok {
			s = corev1.ConditionFalse
		} else {
			reason = ""
		}
		l.st.Conditions = condition(l.st.Conditions, t, s, reason, l.now)
	}
	set(corev1.PodInitialized, done == corev1.ConditionTrue, reason)
	if all && !l.gatesOpen() {
		set(corev1.PodReady, false, "ReadinessGatesNotReady")
	} else {
		set(corev1.PodReady, all, "ContainersNotReady")
	}
	set(corev1.ContainersReady, all, "ContainersNotReady")
}

// readyAfter is how long a container runs before it is ready: what the fate says, or its probes wait at least.
func (l *life) readyAfter(name string) time.Duration {
	d := l.fate.ready
	for i := range l.pod.Spec.Containers {
		c := &l.pod.Spec.Containers[i]
		if c.Name != name {
			continue
		}
		for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe} {
			if p != nil {
				d = max(d, time.Duration(p.InitialDelaySeconds)*time.Second)
			}
		}
	}
	return d
}

// gatesOpen says whether the conditions that the pod waits for are true.
func (l *life) gatesOpen() bool {
	for _, g := range l.pod.Spec.ReadinessGates {
		if !slices.ContainsFunc(l.st.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == g.ConditionType && c.Status == corev1.ConditionTrue
		}) {
			return false
		}
	}
	return true
}

// condition returns the list with one condition set; its time moves only when its status does.
func condition(list []corev1.PodCondition, t corev1.PodConditionType, s corev1.ConditionStatus, reason string, now metav1.Time) []corev1.PodCondition {
	c := corev1.PodCondition{Type: t, Status: s, Reason: reason, LastTransitionTime: now}
	at := slices.IndexFunc(list, func(o corev1.PodCondition) bool { return o.Type == t })
	if at < 0 {
		return append(list, c)
	}
	if list[at].Status == s {
		c.LastTransitionTime, c.ObservedGeneration = list[at].LastTransitionTime, list[at].ObservedGeneration
	}
	list[at] = c
	return list
}
