package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// readiness sets which containers are ready, and the pod's conditions.
func (l *life) readiness() {
	all := l.st.Phase == corev1.PodRunning
	for i := range l.st.ContainerStatuses {
		s := &l.st.ContainerStatuses[i]
		if s.State.Running == nil {
			s.Ready = false
		} else if i < len(l.pod.Spec.Containers) {
			l.probe(&l.pod.Spec.Containers[i], s)
		}
		all = all && s.Ready
	}
	done := corev1.ConditionTrue
	for i := range l.st.InitContainerStatuses {
		s := &l.st.InitContainerStatuses[i]
		up := s.Ready
		if i < len(l.pod.Spec.InitContainers) && podspec.Sidecar(&l.pod.Spec.InitContainers[i]) {
			up = s.Started != nil && *s.Started
		}
		if !up {
			done = corev1.ConditionFalse
		}
		all = all && s.Ready
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
func condition(list []corev1.PodCondition, t corev1.PodConditionType, s corev1.ConditionStatus, reason string,
	now metav1.Time) []corev1.PodCondition {
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
