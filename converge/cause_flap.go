package converge

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// flapping has the situations of a pod that is ready when one looks, and was not a while ago.
func flapping() []Situation {
	return []Situation{{"KeepsRestarting", []resource.Kind{kinds.Pods}, container(keepsRestarting)}}
}

// A container that was started this often, and last within this time, is one that keeps restarting though it is ready now.
const (
	manyRestarts = 5
	lately       = 30 * time.Minute
)

// restless says that a container that is ready was started again and again, until not long ago.
func restless(w *World, c *corev1.ContainerStatus) bool {
	t := c.LastTerminationState.Terminated
	return c.RestartCount >= manyRestarts && t != nil && w.Now.Sub(t.FinishedAt.Time) < lately
}

// flaps finds a container that is up now and is not to be trusted: conditions say Ready, the count of restarts says how long for.
func flaps(w *World, p *corev1.Pod) Health {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if restless(w, &c) {
			return Health{Says: "is ready now and keeps restarting", Want: "status.containerStatuses[" + c.Name + "].restartCount steady",
				Have:  fmt.Sprintf("restartCount=%d", c.RestartCount),
				Since: c.LastTerminationState.Terminated.FinishedAt.Time}
		}
	}
	return Health{}
}

// keepsRestarting is a gap of a pod that is Ready: CrashLoopBackOff never shows where each run outlasts the ten minutes after which the
// agent forgets its pauses.
func keepsRestarting(l *look, p *corev1.Pod, c *corev1.ContainerStatus) *Finding {
	ready := podCondition(p, corev1.PodReady)
	if ready == nil || ready.Status != corev1.ConditionTrue || !restless(l.World, c) {
		return nil
	}
	t := c.LastTerminationState.Terminated
	f := &Finding{Says: fmt.Sprintf("had its container %s started again %s, last %s ago: it %s", c.Name, times(c.RestartCount),
		ago(l.Now.Sub(t.FinishedAt.Time)), exit(t)), State: Waiting,
		Waits: on("Field", refTo(kinds.Pods, p), "status.containerStatuses["+c.Name+"].restartCount"), Error: textOnly(exit(t)),
		Next:   does(agentOf(p), "starts it again when it ends"),
		Advice: []string{"read its last words: kubectl logs --previous " + p.Name + " -c " + c.Name + " -n " + p.Namespace}}
	for _, name := range []string{"Liveness", "Startup"} {
		if e := l.probeWarning(p, c.Name, name); e != nil && !told(e).Before(t.StartedAt.Time) {
			f.Says += "; its probe fails at times: " + e.Message
			f.Error = eventFailure(e)
		}
	}
	if t.Reason == "OOMKilled" {
		f.Says = fmt.Sprintf("had its container %s killed for want of memory and started again %s, last %s ago", c.Name,
			times(c.RestartCount), ago(l.Now.Sub(t.FinishedAt.Time)))
		if q, _ := memoryLimit(p, c.Name); q != "" {
			f.Advice = append(f.Advice, "raise the memory limit of container "+c.Name+", which is "+q)
		}
	}
	return f
}
