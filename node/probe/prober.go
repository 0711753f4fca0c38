package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

type kind string

const (
	startup   kind = "Startup"
	liveness  kind = "Liveness"
	readiness kind = "Readiness"
)

// A prober is one probe of one container.
type prober struct {
	*watched
	kind   kind
	probe  *corev1.Probe
	period time.Duration
	row    int    // answers of the same sort in a row
	last   answer // that sort
	ever   bool   // it has passed once
	pause  time.Duration
}

func newProber(w *watched, k kind, p *corev1.Probe) *prober {
	return &prober{watched: w, kind: k, probe: p, period: seconds(p.PeriodSeconds, 10), pause: eager}
}

func seconds(n, or int32) time.Duration {
	if n <= 0 {
		n = or
	}
	return time.Duration(n) * time.Second
}

// life ends with the last question.
func (p *prober) life() context.Context {
	if p.kind == readiness {
		return p.ctx
	}
	return p.vital
}

// run asks until ctx ends or there is nothing more to learn.
func (p *prober) run(ctx context.Context) {
	if p.kind != startup {
		select {
		case <-ctx.Done():
			return
		case <-p.up:
		}
	}
	if !sleep(ctx, p.first()) {
		return
	}
	tick := time.NewTicker(p.period)
	defer tick.Stop()
	for p.once(ctx, true) && p.between(ctx, tick.C) {
	}
}

// eager is the first pause between the questions to a container that is still starting.
const eager = 250 * time.Millisecond

// between waits for the next regular question.
//
// Unlike Kubernetes, a container that has never passed a startup or readiness probe is asked in between as well,
// at growing pauses: it counts as up when it is, not up to a period later. Only a pass counts there.
func (p *prober) between(ctx context.Context, tick <-chan time.Time) (more bool) {
	for {
		var soon <-chan time.Time
		if p.pause < p.period && !p.ever && p.kind != liveness {
			soon = time.After(p.pause)
			p.pause *= 2
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return true
		case <-soon:
			if !p.once(ctx, false) {
				return false
			}
		}
	}
}

// first is the time to wait before the first question. Containers that have been running for long, which an agent
// meets when it starts, are spread over a period.
func (p *prober) first() time.Duration {
	age := max(time.Since(p.started), 0) // it began in the future: the clock was set back
	if left := time.Duration(p.probe.InitialDelaySeconds)*time.Second - age; left > 0 {
		return left
	}
	if age > p.period+time.Duration(p.probe.InitialDelaySeconds)*time.Second && p.resumed {
		return rand.N(p.period)
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// once asks once; out of turn only a pass counts. more says that the probe goes on.
func (p *prober) once(ctx context.Context, regular bool) (more bool) {
	pod, ip := p.now()
	a, text := p.ask(ctx, pod, ip)
	if ctx.Err() != nil {
		return false
	}
	if a != passed && !regular {
		return true
	}
	p.set.count(pod, p.spec.Name, p.kind, a)
	p.tell(pod, a, text)
	if a == unknown {
		return true
	}
	if a == p.last {
		p.row++
	} else {
		p.last, p.row = a, 1
	}
	if a == passed {
		p.ever = true
		return p.passed()
	}
	return p.failed()
}

func (p *prober) tell(pod *corev1.Pod, a answer, text string) {
	switch {
	case a == passed && text != "" && p.set.Warning != nil:
		p.set.Warning(pod, p.spec.Name, fmt.Sprintf("%s probe warning: %s", p.kind, text))
	case a == failed && p.set.Event != nil:
		p.set.Event(pod, p.spec.Name, fmt.Sprintf("%s probe failed: %s", p.kind, text))
	case a == unknown && p.set.Event != nil:
		p.set.Event(pod, p.spec.Name, fmt.Sprintf("%s probe errored and resulted in unknown state: %s", p.kind, text))
	}
}

func (p *prober) passed() (more bool) {
	if p.row < int(max(p.probe.SuccessThreshold, 1)) {
		return true
	}
	switch p.kind {
	case startup:
		p.begun()
		return false
	case readiness:
		p.put(func(r *Result) { r.Ready = true })
	}
	return true
}

func (p *prober) failed() (more bool) {
	limit := int(p.probe.FailureThreshold)
	if limit <= 0 {
		limit = 3
	}
	if p.row < limit {
		return true
	}
	if p.kind == readiness {
		p.put(func(r *Result) { r.Ready = false })
		return true
	}
	p.put(func(r *Result) {
		r.Sick, r.Grace = true, p.probe.TerminationGracePeriodSeconds
		r.Why = gaveUp(p.pod, p.spec, p.kind)
	})
	return false // the next container is asked anew
}

// gaveUp is the text of the event of a container that is stopped because of its probe.
func gaveUp(pod *corev1.Pod, c *corev1.Container, k kind) string {
	probe := map[kind]string{startup: "startup", liveness: "liveness"}[k]
	if slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name }) {
		return fmt.Sprintf("Init container %s failed %s probe", c.Name, probe)
	}
	again := ""
	if podspec.Restarts(pod.Spec.RestartPolicy, c, killed) {
		again = ", will be restarted"
	}
	return fmt.Sprintf("Container %s failed %s probe%s", c.Name, probe, again)
}

// killed is the exit code of a container that had to be.
const killed = 137
