package health

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
)

// A container that was started this often, and last within this time, is one that keeps restarting though it is ready now.
const (
	manyRestarts = 5
	lately       = 30 * time.Minute
)

// Restless says that a container that is ready was started again and again, until not long ago.
func Restless(w *converge.World, c *corev1.ContainerStatus) bool {
	t := c.LastTerminationState.Terminated
	return c.RestartCount >= manyRestarts && t != nil && w.Now.Sub(t.FinishedAt.Time) < lately
}

// flaps finds a container that is up now and is not to be trusted: conditions say Ready, the count of restarts says how long for.
func flaps(w *converge.World, p *corev1.Pod) converge.Health {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if Restless(w, &c) {
			return converge.Health{Says: "is ready now and keeps restarting", Want: "status.containerStatuses[" + c.Name +
				"].restartCount steady",
				Have:  fmt.Sprintf("restartCount=%d", c.RestartCount),
				Since: c.LastTerminationState.Terminated.FinishedAt.Time}
		}
	}
	return converge.Health{}
}

// Unsized is the condition that tells that a pod does not have its size, and why.
func Unsized(p *corev1.Pod) *corev1.PodCondition {
	if c := general.PodCondition(p, corev1.PodResizePending); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	if c := general.PodCondition(p, corev1.PodResizeInProgress); c != nil && c.Status == corev1.ConditionTrue &&
		c.Reason == corev1.PodReasonError {
		return c
	}
	return nil
}

func resizeHealth(p *corev1.Pod) converge.Health {
	c := Unsized(p)
	if c == nil {
		return converge.Health{}
	}
	return converge.Health{Says: "does not have the resources that its spec asks for", Want: "spec.containers[].resources in force",
		Have: fmt.Sprintf("status.conditions[%s]=%s", c.Type, c.Reason), Since: c.LastTransitionTime.Time}
}

// podHealth finds no gap in a pod that failed under a controller: the controller has its say about that.
func podHealth(w *converge.World, p *corev1.Pod) converge.Health {
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return converge.Health{}
	case corev1.PodFailed:
		if metav1.GetControllerOfNoCopy(p) != nil {
			return converge.Health{}
		}
		return converge.Health{Says: "failed", Want: "status.phase=Running", Have: "status.phase=Failed", Since: ended(p)}
	}
	ready := general.PodCondition(p, corev1.PodReady)
	switch {
	case ready != nil && ready.Status == corev1.ConditionTrue:
		if h := flaps(w, p); !h.Converged() {
			return h
		}
		if h := resizeHealth(p); !h.Converged() {
			return h
		}
		return debugHealth(p)
	case p.Spec.NodeName == "":
		h := converge.Health{Says: "has no node", Want: "spec.nodeName set", Have: "spec.nodeName empty", Since: p.CreationTimestamp.Time}
		return h
	case p.Status.Phase == corev1.PodRunning:
		h := converge.Health{Says: "runs and is not ready", Want: "status.conditions[Ready]=True", Have: "status.conditions[Ready]=False"}
		if ready != nil {
			h.Since = ready.LastTransitionTime.Time
		}
		return h
	}
	h := converge.Health{Says: "has a node and does not run", Want: "status.phase=Running", Have: "status.phase=" + string(p.Status.Phase),
		Since: p.CreationTimestamp.Time}
	if c := general.PodCondition(p, corev1.PodScheduled); c != nil {
		h.Since = c.LastTransitionTime.Time
	}
	return h
}

// debugHealth finds a gap in a pod whose container for debugging does not start, though all else is well.
func debugHealth(p *corev1.Pod) converge.Health {
	for i := range p.Status.EphemeralContainerStatuses {
		c := &p.Status.EphemeralContainerStatuses[i]
		if reason, _ := general.WaitsFor(c); reason != "" && reason != "ContainerCreating" && reason != "PodInitializing" {
			return converge.Health{Says: "has a container for debugging, " + c.Name + ", that does not start",
				Want: fmt.Sprintf("status.ephemeralContainerStatuses[%s].state=running", c.Name),
				Have: "waiting: " + reason}
		}
	}
	return converge.Health{}
}

// ended is the time at which the last container of a pod ended.
func ended(p *corev1.Pod) (at time.Time) {
	at = p.CreationTimestamp.Time
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	return at
}
