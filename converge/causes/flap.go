package causes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// flapping has the situations of a pod that is ready when one looks, and was not a while ago.
func flapping() []converge.Situation {
	return []converge.Situation{{Name: "KeepsRestarting", Of: []resource.Kind{kinds.Pods}, See: container(keepsRestarting)}}
}

// keepsRestarting is a gap of a pod that is Ready: CrashLoopBackOff never shows where each run outlasts the ten minutes after which the
// agent forgets its pauses.
func keepsRestarting(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	ready := general.PodCondition(p, corev1.PodReady)
	if ready == nil || ready.Status != corev1.ConditionTrue || !health.Restless(l.World, c) {
		return nil
	}
	t := c.LastTerminationState.Terminated
	f := &converge.Finding{Says: fmt.Sprintf("had its container %s started again %s, last %s ago: it %s", c.Name, times(c.RestartCount),
		words.Ago(l.Now.Sub(t.FinishedAt.Time)), general.Exit(t)), State: converge.Waiting,
		Waits:  l.Field("status.containerStatuses[" + c.Name + "].restartCount"),
		Error:  general.TextOnly(general.Exit(t)),
		Next:   converge.Does(converge.AgentOf(p), "starts it again when it ends"),
		Advice: []string{"read its last words: kubectl logs --previous " + p.Name + " -c " + c.Name + " -n " + p.Namespace}}
	for _, name := range []string{"Liveness", "Startup"} {
		if e := probeWarning(l, p, c.Name, name); e != nil && !converge.Told(e).Before(t.StartedAt.Time) {
			f.Says += "; its probe fails at times: " + e.Message
			f.Error = general.EventFailure(e)
		}
	}
	if t.Reason == "OOMKilled" {
		f.Says = fmt.Sprintf("had its container %s killed for want of memory and started again %s, last %s ago", c.Name,
			times(c.RestartCount), words.Ago(l.Now.Sub(t.FinishedAt.Time)))
		if q, _ := memoryLimit(p, c.Name); q != "" {
			f.Advice = append(f.Advice, raiseMemory(l, p, c.Name, "raise the memory limit of container "+c.Name+", which is "+q))
		}
	}
	return f
}
