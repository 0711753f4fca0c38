package node

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// terminal makes a status that of a pod of which nothing runs any more and nothing will: it has failed unless it has ended by itself, and
// so have its containers, also those that never began, as far as the pod had come. Controllers that replace a pod only when it has ended
// wait for this, also of a pod that was deleted before it ran. Its containers have been stopped since then; zero: nobody knows.
func terminal(w world, st *corev1.PodStatus, since time.Time) {
	if initialized(w.pod, st) && !cutShort(st, since) {
		lose(st.ContainerStatuses)
	}
	lose(st.InitContainerStatuses[:begun(st.InitContainerStatuses)])
	if st.Phase != corev1.PodSucceeded {
		st.Phase = corev1.PodFailed
	}
}

// cutShort says that the pod's init containers were done only because they were stopped.
func cutShort(st *corev1.PodStatus, since time.Time) bool {
	if since.IsZero() || len(st.ContainerStatuses) == 0 || st.ContainerStatuses[0].ContainerID != "" {
		return false
	}
	return slices.ContainsFunc(st.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Terminated != nil && !s.State.Terminated.FinishedAt.Time.Before(since.Truncate(time.Second))
	})
}

// lose tells that containers have ended, nobody knows how.
func lose(list []corev1.ContainerStatus) {
	for i := range list {
		if list[i].State.Terminated == nil {
			list[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown",
				Message: "The container could not be located when the pod was terminated", ExitCode: 137}}
		}
	}
}

// begun counts the init containers that have been tried, the first in any case: those after them never had their turn.
func begun(list []corev1.ContainerStatus) int {
	for i := len(list); i > 0; i-- {
		if s := &list[i-1]; s.State.Waiting == nil || s.LastTerminationState.Terminated != nil {
			return i
		}
	}
	return min(len(list), 1)
}
