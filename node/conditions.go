package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
)

// phase sums up the containers.
func phase(pod *corev1.Pod, st corev1.PodStatus) corev1.PodPhase {
	for i, s := range st.InitContainerStatuses {
		if podspec.Sidecar(&pod.Spec.InitContainers[i]) {
			continue
		}
		end := s.State.Terminated
		switch {
		case end != nil && end.ExitCode == 0:
		case end != nil && !runsAgain(pod, &pod.Spec.InitContainers[i], true, end.ExitCode):
			return corev1.PodFailed
		case len(st.ContainerStatuses) > 0 && st.ContainerStatuses[0].ContainerID != "": // they ran: it was cleaned up
		default:
			return corev1.PodPending
		}
	}
	var running, waiting, failed int
	for i, s := range st.ContainerStatuses {
		end := s.State.Terminated
		switch {
		case s.State.Running != nil:
			running++
		case end != nil && pod.DeletionTimestamp == nil && !core.Terminal(pod) && runsAgain(pod, &pod.Spec.Containers[i], false, end.ExitCode):
			running++ // between two runs
		case end != nil && end.ExitCode == 0:
		case end != nil:
			failed++
		case s.LastTerminationState.Terminated != nil: // between two runs
			running++
		default:
			waiting++
		}
	}
	switch {
	case waiting > 0 && pod.Status.Phase != corev1.PodRunning:
		return corev1.PodPending
	case running > 0 || waiting > 0:
		return corev1.PodRunning
	case failed > 0:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

// nodesConditions are the conditions that the node owns, in their order.
var nodesConditions = []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady,
	corev1.ContainersReady, corev1.PodScheduled}

// conditions sets the conditions that the node owns. They stand before those of others.
func conditions(w world, st *corev1.PodStatus) {
	judge(w, st)
	var list []corev1.PodCondition
	for _, t := range nodesConditions {
		for _, c := range st.Conditions {
			if c.Type == t {
				list = append(list, c)
			}
		}
	}
	st.Conditions = append(list, foreignConditions(st)...)
}

// foreignConditions are those that the node does not own.
func foreignConditions(st *corev1.PodStatus) []corev1.PodCondition {
	return slices.DeleteFunc(slices.Clone(st.Conditions), func(c corev1.PodCondition) bool { return slices.Contains(nodesConditions, c.Type) })
}

func judge(w world, st *corev1.PodStatus) {
	pod := w.pod
	box := w.seen.box(pod.UID)
	set := func(t corev1.PodConditionType, ok bool, reason, message string) {
		setCondition(st, t, ok, reason, message, pod.Generation, w.now)
	}
	set(corev1.PodScheduled, true, "", "") // it is here, whoever put it here
	readyToStart(w, box, set)
	if finished := st.Phase == corev1.PodSucceeded || st.Phase == corev1.PodFailed; finished {
		reason := "PodCompleted"
		if st.Phase == corev1.PodFailed {
			reason = "PodFailed"
		}
		left := notInitialized(pod, st)
		switch {
		case st.Phase == corev1.PodSucceeded:
			set(corev1.PodInitialized, true, reason, "")
		case left == "":
			set(corev1.PodInitialized, true, "", "")
		default:
			set(corev1.PodInitialized, false, "ContainersNotInitialized", left)
		}
		set(corev1.ContainersReady, false, reason, "")
		set(corev1.PodReady, false, reason, "")
		return
	}
	ok := initialized(pod, st)
	set(corev1.PodInitialized, ok, choose(ok, "", "ContainersNotInitialized"), choose(ok, "", notInitialized(pod, st)))
	unready := unreadyNames(pod, st)
	text := ""
	if len(unready) > 0 {
		text = fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	}
	set(corev1.ContainersReady, text == "", choose(text == "", "", "ContainersNotReady"), text)
	reason, message := choose(text == "", "", "ContainersNotReady"), text
	if gate := closedGate(pod, st); text == "" && gate != "" {
		reason, message = "ReadinessGatesNotReady", gate
	}
	set(corev1.PodReady, message == "", reason, message)
}

// readyToStart tells of the pod's sandbox.
func readyToStart(w world, box *sandbox, set func(t corev1.PodConditionType, ok bool, reason, message string)) {
	if box != nil {
		set(corev1.PodReadyToStartContainers, true, "", "")
		return
	}
	why := "no pod sandbox exists"
	if i := slices.IndexFunc(w.seen.sandboxes, func(b sandbox) bool { return b.uid == w.pod.UID }); i >= 0 { // the newest
		why = cmp.Or(w.seen.sandboxes[i].lost, notReady)
	}
	set(corev1.PodReadyToStartContainers, false, "PodSandboxNotReady", why)
}

func choose(ok bool, a, b string) string {
	if ok {
		return a
	}
	return b
}

func initialized(pod *corev1.Pod, st *corev1.PodStatus) bool { return notInitialized(pod, st) == "" }

func notInitialized(pod *corev1.Pod, st *corev1.PodStatus) string {
	var names []string
	for i, s := range st.InitContainerStatuses {
		switch {
		case podspec.Sidecar(&pod.Spec.InitContainers[i]):
			if s.Started == nil || !*s.Started {
				names = append(names, s.Name)
			}
		case s.State.Terminated == nil || s.State.Terminated.ExitCode != 0:
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 || (len(st.ContainerStatuses) > 0 && st.ContainerStatuses[0].ContainerID != "") {
		return ""
	}
	return fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(names, " "))
}

func unreadyNames(pod *corev1.Pod, st *corev1.PodStatus) (names []string) {
	for i, s := range st.InitContainerStatuses {
		if podspec.Sidecar(&pod.Spec.InitContainers[i]) && !s.Ready {
			names = append(names, s.Name)
		}
	}
	for _, s := range st.ContainerStatuses {
		if !s.Ready {
			names = append(names, s.Name)
		}
	}
	return names
}

func closedGate(pod *corev1.Pod, st *corev1.PodStatus) string {
	for _, g := range pod.Spec.ReadinessGates {
		i := slices.IndexFunc(st.Conditions, func(c corev1.PodCondition) bool { return c.Type == g.ConditionType })
		switch {
		case i < 0:
			return fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", g.ConditionType)
		case st.Conditions[i].Status != corev1.ConditionTrue:
			return fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", g.ConditionType, st.Conditions[i].Status)
		}
	}
	return ""
}

// setCondition writes one condition; its time moves only when its status does.
func setCondition(st *corev1.PodStatus, t corev1.PodConditionType, ok bool, reason, message string, gen int64, now time.Time) {
	c := corev1.PodCondition{Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: gen,
		LastTransitionTime: seconds(now)}
	if ok {
		c.Status = corev1.ConditionTrue
	}
	i := slices.IndexFunc(st.Conditions, func(o corev1.PodCondition) bool { return o.Type == t })
	if i < 0 {
		st.Conditions = append(st.Conditions, c)
		return
	}
	if st.Conditions[i].Status == c.Status {
		c.LastTransitionTime = st.Conditions[i].LastTransitionTime
	}
	st.Conditions[i] = c
}
