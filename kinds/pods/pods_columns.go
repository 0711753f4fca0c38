package pods

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

var podColumns = []resource.Column[*corev1.Pod]{
	resource.Col("Ready", "string", func(p *corev1.Pod) any { return digest(p).ready }),
	resource.Col("Status", "string", func(p *corev1.Pod) any { return digest(p).reason }),
	resource.Col("Restarts", "string", func(p *corev1.Pod) any { return digest(p).restarts.String() }),
	resource.Age[*corev1.Pod](),
	resource.Wide("IP", "string", func(p *corev1.Pod) any { return cell.Or(core.FirstIP(p), cell.None) }),
	resource.Wide("Node", "string", func(p *corev1.Pod) any { return cell.Or(p.Spec.NodeName, cell.None) }),
	resource.Wide("Nominated Node", "string", func(p *corev1.Pod) any { return cell.Or(p.Status.NominatedNodeName, cell.None) }),
	resource.Wide("Readiness Gates", "string", func(p *corev1.Pod) any { return gatesPassed(p) }),
}

// podMarks tells kubectl which rows are of pods that ended.
func podMarks(p *corev1.Pod) []metav1.TableRowCondition {
	said := map[corev1.PodPhase]string{corev1.PodSucceeded: "The pod has completed successfully.",
		corev1.PodFailed: "The pod failed."}[p.Status.Phase]
	if said == "" {
		return nil
	}
	return []metav1.TableRowCondition{{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(p.Status.Phase), Message: said}}
}

// A summary is a pod as `kubectl get` tells of it.
type summary struct {
	ready    string
	reason   string
	restarts restarts
}

type restarts struct {
	n    int
	last metav1.Time
}

func (r *restarts) add(s *corev1.ContainerStatus) {
	r.n += int(s.RestartCount)
	if t := s.LastTerminationState.Terminated; t != nil && r.last.Before(&t.FinishedAt) {
		r.last = t.FinishedAt
	}
}

func (r restarts) String() string {
	if r.n != 0 && !r.last.IsZero() {
		return fmt.Sprintf("%d (%s ago)", r.n, resource.Since(r.last))
	}
	return strconv.Itoa(r.n)
}

// digest tells the state of a pod in words: first how far its init containers came; when these are done, what
// the first container has to say that is not just running; over everything, that the pod is being deleted.
func digest(p *corev1.Pod) summary {
	s := summary{reason: cell.Or(p.Status.Reason, string(p.Status.Phase))}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.reason = corev1.PodReasonSchedulingGated
		}
	}
	ready, initializing, sidecars := s.readInit(p)
	if !initializing || conditionTrue(p, corev1.PodInitialized) {
		s.restarts = sidecars
		ready += s.readContainers(p)
	}
	if p.DeletionTimestamp != nil {
		switch {
		case p.Status.Reason == nodeLost:
			s.reason = "Unknown"
		case !core.Terminal(p):
			s.reason = "Terminating"
		}
	}
	s.ready = fmt.Sprintf("%d/%d", ready, len(p.Spec.Containers)+len(restartable(p)))
	return s
}

// nodeLost is the reason that pods get whose node does not answer.
const nodeLost = "NodeLost"

// readInit reads the init containers up to the first that has not done its part.
func (s *summary) readInit(p *corev1.Pod) (ready int, initializing bool, sidecars restarts) {
	side := restartable(p)
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		s.restarts.add(c)
		if side[c.Name] {
			sidecars.add(c)
		}
		switch end := c.State.Terminated; {
		case end != nil && end.ExitCode == 0:
			continue
		case side[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				ready++
			}
			continue
		case end != nil:
			s.reason = "Init:" + ending(end)
		case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing":
			s.reason = "Init:" + c.State.Waiting.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
		return ready, true, sidecars
	}
	return ready, false, sidecars
}

// readContainers reads the containers from the last to the first, which has the last word.
func (s *summary) readContainers(p *corev1.Pod) (ready int) {
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.restarts.add(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.reason = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.reason = ending(c.State.Terminated)
		case c.Ready && c.State.Running != nil:
			ready++
		}
	}
	if s.reason == "Completed" && ready > 0 {
		s.reason = "NotReady"
		if conditionTrue(p, corev1.PodReady) {
			s.reason = "Running"
		}
	}
	return ready
}

func ending(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

// restartable names the init containers that go on running beside the others.
func restartable(p *corev1.Pod) map[string]bool {
	var side map[string]bool
	for _, c := range p.Spec.InitContainers {
		if podspec.Sidecar(&c) {
			if side == nil {
				side = map[string]bool{}
			}
			side[c.Name] = true
		}
	}
	return side
}

func conditionTrue(p *corev1.Pod, t corev1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func gatesPassed(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return cell.None
	}
	passed := 0
	for _, g := range p.Spec.ReadinessGates {
		if conditionTrue(p, g.ConditionType) {
			passed++
		}
	}
	return fmt.Sprintf("%d/%d", passed, len(p.Spec.ReadinessGates))
}
