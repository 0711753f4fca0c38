package general

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// Died describes how a container last ended, if it did and was started again or is to be.
func Died(c *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	reason, _ := WaitsFor(c)
	t := c.LastTerminationState.Terminated
	if t == nil && reason == "" {
		t = c.State.Terminated
	}
	if t != nil && t.ExitCode == 0 && reason != CrashLoopBackOff {
		return nil
	}
	return t
}

// signals words what may end a program.
var signals = map[int32]string{4: "SIGILL: an instruction that this processor does not know", 6: "SIGABRT: the program gave up",
	7: "SIGBUS: a fault of the program", 8: "SIGFPE: a fault of the program",
	9:  "SIGKILL; by whom, its node does not say: for want of memory one of its processes may have been, or its time to end was over",
	11: "SIGSEGV: a fault of the program",
	15: "SIGTERM: somebody asked it to end"}

// lastSignal is the greatest number of a signal: a program that exits with 255 says -1 itself.
const lastSignal = 64

// Exit words how a container ended.
func Exit(t *corev1.ContainerStateTerminated) string {
	if t.Reason == "OOMKilled" {
		return "needs more memory than it may have, and was killed for that"
	}
	text := fmt.Sprintf("exits with code %d", t.ExitCode)
	switch t.ExitCode {
	case 126:
		text += " (its command can't be executed)"
	case 127:
		text += " (its command was not found)"
	}
	if t.Signal != 0 || t.ExitCode > 128 && t.ExitCode <= 128+lastSignal {
		signal := max(t.Signal, t.ExitCode-128)
		text = fmt.Sprintf("is ended by signal %d", signal)
		if what := signals[signal]; what != "" {
			text += " (" + what + ")"
		}
	}
	if m := strings.TrimSpace(t.Message); m != "" {
		text += ", saying: " + LastLine(m)
	}
	return text
}

// LastLine is the last that says that something is wrong, or the last of all.
func LastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for _, line := range slices.Backward(lines) {
		if words.Faulty.MatchString(line) {
			return line
		}
	}
	return lines[len(lines)-1]
}

// WaitsFor is the reason and the text for which a container waits; empty when it does not.
func WaitsFor(c *corev1.ContainerStatus) (reason, text string) {
	if c.State.Waiting == nil {
		return "", ""
	}
	return c.State.Waiting.Reason, c.State.Waiting.Message
}

// SlowStart is after how long a pod that has not started is no longer one that merely takes its time.
const SlowStart = 30e9

// PodCondition finds a condition of a pod.
func PodCondition(p *corev1.Pod, typ corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == typ {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// NodeReady says that a node is known to be ready.
func NodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// FailedIn is a container that failed for a job; nil: none is there any more.
func FailedIn(l *converge.Look, j resource.Object) (*corev1.Pod, *corev1.ContainerStatus) {
	for _, p := range resource.Owned(l.Read, core.Pods, j) {
		for i := range p.Status.ContainerStatuses {
			if c := &p.Status.ContainerStatuses[i]; Died(c) != nil {
				return p, c
			}
		}
	}
	return nil, nil
}

// LastFailed tells how a container of a job ended, with the command that shows its log.
func LastFailed(l *converge.Look, j resource.Object) (says, command string) {
	if p, c := FailedIn(l, j); p != nil {
		return fmt.Sprintf("container %s of pod/%s %s", c.Name, p.Name, Exit(Died(c))),
			"kubectl logs " + p.Name + " -c " + c.Name + " -n " + p.Namespace
	}
	return "", ""
}

// CrashLoopBackOff is why a container waits that ends again and again.
const CrashLoopBackOff = "CrashLoopBackOff"
