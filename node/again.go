package node

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// Restarts of containers: each by its own rules and policy (KEP-5307), or all of a pod because one of them ended so (KEP-5532).
//
// A pod has one life after the other. A container carries the number of its life; when one ends whose rule restarts all, the next life
// begins: what is of the former ones is stopped, and all is started anew, init containers first. So the number follows from what the
// runtime shows, and an agent that starts anew goes on.

// runsAgain says whether an ended container is started again. An init container that has done its work is not.
func runsAgain(pod *corev1.Pod, spec *corev1.Container, init bool, exit int32) bool {
	if init && !podspec.Sidecar(spec) && exit == 0 {
		return false
	}
	return podspec.Restarts(pod.Spec.RestartPolicy, spec, exit)
}

// noteLife is the annotation of a container of a later life than the first.
const noteLife = "kloop.dev/life"

// life counts: the number of the container's.
func (c *container) life() int {
	n, _ := strconv.Atoi(c.notes[noteLife]) // absent is the first
	return n
}

// restartsAll says that the container's end begins the pod's next life.
func (w world) restartsAll(c *container) bool {
	spec := specOf(w.pod, c.name)
	if spec == nil || !c.ended() || c.uid != w.pod.UID {
		return false
	}
	r := podspec.RestartRule(spec, c.exit)
	return r != nil && r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
}

// life counts: the number of the pod's.
func (w world) life() (n int) {
	for i := range w.seen.containers {
		c := &w.seen.containers[i]
		at := c.life()
		if w.restartsAll(c) {
			at++
		}
		n = max(n, at)
	}
	return n
}

// former says that the container belongs to a former life.
func (w world) former(c *container) bool {
	return c != nil && specOf(w.pod, c.name) != nil && c.life() < w.life()
}

// newest is the last container of the name in the pod's present life, or nil.
func (w world) newest(name string) *container {
	if c := w.seen.newest(name); !w.former(c) {
		return c
	}
	return nil
}

// restarting says that the next life has not begun: none of its containers is there.
func (w world) restarting() bool {
	n := w.life()
	return n > 0 && !slices.ContainsFunc(w.seen.containers, func(c container) bool { return c.life() == n })
}

// planNextLife stops what is left of the former life. done: nothing is.
func planNextLife(w world, t *todo) (done bool) {
	done = true
	for i := range w.seen.containers {
		c := &w.seen.containers[i]
		if c.mayRun() && w.former(c) {
			done = false // without a spec its hook does not run, and within the pod's grace
			t.kill = append(t.kill, kill{c: c, why: "killing"})
		}
	}
	return done
}

// restartsAllPossible says that a container of the pod may restart all others.
func restartsAllPossible(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// lifeCondition tells of the start of the next life.
func lifeCondition(w world, st *corev1.PodStatus) {
	if !restartsAllPossible(w.pod) {
		return
	}
	reason := ""
	switch {
	case st.Phase == corev1.PodSucceeded:
		reason = "PodCompleted"
	case st.Phase == corev1.PodFailed:
		reason = "PodFailed"
	case w.pod.DeletionTimestamp == nil && w.restarting():
		reason = "RestartAllContainersStarted"
	}
	setCondition(st, corev1.AllContainersRestarting, reason == "RestartAllContainersStarted", reason, "", 0, w.now) // of no generation
}

// announced says that the pod's status tells of the start of its next life, if there is one.
func announced(w world) bool {
	return !w.restarting() || slices.ContainsFunc(w.pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.AllContainersRestarting && c.Status == corev1.ConditionTrue
	})
}
