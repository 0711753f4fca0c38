package causes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// kills are the ways in which a container is ended by its own probe. They come before the crashes: by its exit code alone a
// container that was killed looks like one that crashed, or like one that ended with success.
func kills() []converge.Situation {
	of := []resource.Kind{kinds.Pods}
	return []converge.Situation{
		{Name: "StartupProbeFails", Of: of, See: container(killedBy("Startup",
			func(c *corev1.Container) *corev1.Probe { return c.StartupProbe }))},
		{Name: "LivenessProbeFails", Of: of, See: container(killedBy("Liveness",
			func(c *corev1.Container) *corev1.Probe { return c.LivenessProbe }))},
	}
}

// killedBy finds a container that the agent ended because a probe failed: the probe's warning is of the run that ended, or later.
func killedBy(name string, of func(*corev1.Container) *corev1.Probe) func(l *converge.Look, p *corev1.Pod,
	c *corev1.ContainerStatus) *converge.Finding {
	word := strings.ToLower(name)
	return func(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
		ended := c.LastTerminationState.Terminated
		if ended == nil {
			ended = c.State.Terminated
		}
		if probe := probeOf(p, c.Name, of); probe == nil || c.Ready || ended == nil || ended.Reason == "OOMKilled" || c.RestartCount == 0 {
			return nil
		}
		e := probeWarning(l, p, c.Name, name)
		if e == nil || converge.Told(e).Before(ended.StartedAt.Add(-late)) || ended.StartedAt.IsZero() &&
			ended.FinishedAt.Sub(converge.Told(e)) > maxGrace(p) {
			return nil
		}
		probe := probeOf(p, c.Name, of)
		f := &converge.Finding{Says: fmt.Sprintf("restarts: container %s is killed because its %s probe fails (%s): %s", c.Name, word,
			times(c.RestartCount), general.LastLine(e.Message[strings.Index(e.Message, ":")+1:])),
			State: converge.BackingOff, Error: general.EventFailure(e),
			Waits: l.Field(fmt.Sprintf("status.containerStatuses[%s].ready", c.Name)),
			Next: converge.Does(converge.AgentOf(p), "asks again every %d s, and kills the container after %s", max(probe.PeriodSeconds, 1),
				words.Count(int(max(probe.FailureThreshold, 1)), "failure"))}
		if reason, _ := general.WaitsFor(c); reason == general.CrashLoopBackOff {
			f.Next = converge.At(again(c), converge.AgentOf(p), "starts container %s again", c.Name)
		}
		f.Advice = []string{fmt.Sprintf("find out why %s is not answered: kubectl logs --previous %s -c %s -n %s", target(probe), p.Name,
			c.Name,
			p.Namespace)}
		if name == "Startup" {
			f.Advice = append(f.Advice, retemplate(l, fmt.Sprintf("if it merely takes longer to start than the %d s that it has, raise "+
				"startupProbe.failureThreshold", allowed(probe)), ofContainer(&p.Spec, c.Name, fmt.Sprintf(
				`"startupProbe":{"failureThreshold":%d}`, 5*max(probe.FailureThreshold, 1)))))
		} else {
			if slowly(e) {
				f.Advice = append(f.Advice, patient(l, p, c.Name, word, probe))
			} else {
				f.Advice = append(f.Advice, retemplate(l, "if it fails now and then alone, raise livenessProbe.failureThreshold", ofContainer(&p.Spec,
					c.Name, fmt.Sprintf(`"livenessProbe":{"failureThreshold":%d}`, 2*max(probe.FailureThreshold, 1)))))
			}
			ran := ended.FinishedAt.Sub(ended.StartedAt.Time)
			if slow := slowStart(l, p, c.Name, probe); slow != "" && (ended.StartedAt.IsZero() || ran <
				time.Duration(allowed(probe))*time.Second+maxGrace(p)) { // else it had started well
				f.Advice = slices.Insert(f.Advice, 1, slow)
				if !ended.StartedAt.IsZero() {
					f.Says += fmt.Sprintf("; it had run for %d s then", int(ran.Seconds()))
				}
			}
		}
		if strings.Contains(e.Message, "statuscode: 4") {
			f.Advice = nil // it answers
			answerOf(l, f, c.Name, strings.ToLower(name), e.Message)
		}
		if says, advice := misported(l, p, c.Name, name, probe); says != "" && strings.Contains(e.Message, "refused") {
			f.Says += says
			f.Advice = append([]string{advice}, f.Advice...)
		}
		return f
	}
}

// slowStart advises to give a container that is killed before it has started five minutes for that, asked as its liveness probe asks.
func slowStart(l *converge.Look, p *corev1.Pod, name string, probe *corev1.Probe) string {
	if probeOf(p, name, func(c *corev1.Container) *corev1.Probe { return c.StartupProbe }) != nil {
		return ""
	}
	startup := &corev1.Probe{ProbeHandler: probe.ProbeHandler, PeriodSeconds: 10, FailureThreshold: 30}
	text, err := json.Marshal(startup)
	if err != nil || strings.Contains(string(text), "'") {
		return "if it is slow to start, give it a startupProbe"
	}
	return retemplate(l, "if it is slow to start, give it a startupProbe, of five minutes, say", ofContainer(&p.Spec, name,
		`"startupProbe":`+string(text)))
}

// late is by how much an event may lag behind what it tells of: those that come again and again are written now and then.
const late = 10 * time.Minute

// probeWarning is the newest warning about a probe of a container.
func probeWarning(l *converge.Look, p *corev1.Pod, container, name string) (best *corev1.Event) {
	for _, e := range l.Events(p.UID) {
		if field := e.InvolvedObject.FieldPath; field != "" && !strings.HasSuffix(field,
			"{"+container+"}") || e.Reason != "Unhealthy" || !strings.HasPrefix(e.Message, name+" probe") {
			continue
		}
		if best == nil || converge.Told(best).Before(converge.Told(e)) {
			best = e
		}
	}
	return best
}

// allowed is for how many seconds a startup probe may fail.
func allowed(p *corev1.Probe) int32 {
	return p.InitialDelaySeconds + max(p.FailureThreshold, 1)*max(p.PeriodSeconds, 1)
}

// maxGrace is the longest time after its probe's last warning a container that is being killed may end.
func maxGrace(p *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 30))*time.Second + time.Minute
}
