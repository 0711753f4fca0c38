package simulation

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

// faults are the kinds of failure injected and their rates. A seed has some of them, never all: what is rare with everything is common
// with little.
type faults struct {
	refuse, forget, conflict float64 // of calls
	slow                     float64 // of answers to calls
	noStore, noAnswer        float64 // of writes to the store
	dieBefore, dieAfter      float64 // of loops at a write
	lose, gap, again, part   float64 // of changes
	late                     float64 // of steps
	maxLag                   int
	cuts, losses             time.Duration // one in about this time; 0: none
	steps, reboots           time.Duration
}

// newFaults rolls the faults of a seed.
func newFaults(ts *interleaving) *faults {
	w := &faults{}
	some := func(p *float64, usual float64) {
		if ts.odds(0.5) {
			*p = usual * (0.3 + 4*ts.rng.Float64())
		}
	}
	some(&w.refuse, 0.02)
	some(&w.forget, 0.01)
	some(&w.conflict, 0.03)
	some(&w.noStore, 0.01)
	some(&w.noAnswer, 0.01)
	some(&w.dieBefore, 0.004)
	some(&w.dieAfter, 0.004)
	some(&w.lose, 0.01)
	some(&w.gap, 0.01)
	some(&w.again, 0.05)
	some(&w.part, 0.2)
	some(&w.late, 0.02)
	often := func(d *time.Duration, usual time.Duration) {
		if ts.odds(0.4) {
			*d = ts.span(usual/2, 2*usual)
		}
	}
	often(&w.cuts, 30*time.Second)
	often(&w.losses, 2*time.Minute)
	often(&w.steps, time.Minute)
	often(&w.reboots, 3*time.Minute)
	if ts.odds(0.5) {
		w.maxLag = 1 + ts.rng.IntN(40)
	}
	some(&w.slow, 0.01)
	return w
}

// lag is the delay of a loop's reads.
func (we *faults) lag(w *world) int {
	if we.maxLag == 0 || w.steps.odds(0.4) {
		return 0
	}
	return w.steps.rng.IntN(we.maxLag + 1)
}

// blow starts what comes by the clock.
func (we *faults) schedule(w *world) {
	every := func(mean time.Duration, why string, do func()) {
		if mean == 0 {
			return
		}
		var next func()
		next = func() {
			w.plan(w.steps.span(mean/4, 2*mean), why, func() {
				if w.faults == nil {
					return
				}
				do()
				next()
			})
		}
		next()
	}
	every(we.cuts, "a cut", w.cutOne)
	every(we.losses, "a node is lost", w.loseNode)
	every(we.steps, "the clocks step", func() {
		w.mu.Lock()
		w.step += w.steps.span(0, 4*time.Minute) - 2*time.Minute
		w.step = min(max(w.step, -3*time.Minute), 3*time.Minute)
		w.mu.Unlock()
	})
	every(we.reboots, "power fails", w.reboot)
}

// cutOne keeps a loop from the door for a while.
func (w *world) cutOne() {
	names := w.names()
	if len(names) == 0 {
		return
	}
	name := names[w.steps.rng.IntN(len(names))]
	until := time.Now().Add(w.steps.span(time.Second, time.Minute))
	w.steps.note("%s is cut off until %s", name, until)
	w.mu.Lock()
	w.cut[name] = until
	w.mu.Unlock()
}

func (w *world) cutOff(who string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[who].After(time.Now())
}

// heldBack is until when a step can't be taken: calls of one who is cut off hang, and changes do not come.
func (w *world) heldBack(t *step) time.Time {
	if t.what == "take" || strings.HasPrefix(t.what, "write ") || strings.HasPrefix(t.what, giveUp) {
		return time.Time{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[t.who]
}

// loseNode makes a simulated node fall silent for a while.
func (w *world) loseNode() {
	var names []string
	for _, n := range resource.List(w.admin().Read(), kinds.Nodes, "") {
		if n.Annotations[sim.Lost] == "" && n.DeletionTimestamp == nil {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	name := names[w.steps.rng.IntN(len(names))]
	w.steps.note("node %s is lost", name)
	w.mark(name, `"yes"`)
	w.plan(w.steps.span(5*time.Second, 8*time.Minute), "node "+name+" returns", func() { w.mark(name, "null") })
}

// mark writes a node's annotation that says that it is lost.
func (w *world) mark(node, value string) {
	_, err := w.admin().Patch(w.ctx, kinds.Nodes, "", node, client.Patch{Type: types.MergePatchType,
		Data: []byte(`{"metadata":{"annotations":{"` + sim.Lost + `":` + value + `}}}`)})
	if err != nil {
		w.steps.note("mark node %s: %v", node, err) // it was removed
	}
}

// clear ends all that goes wrong.
func (w *world) heal() {
	w.faults = nil
	w.mu.Lock()
	clear(w.cut)
	w.step = 0
	for _, run := range w.running {
		run.client.mu.Lock()
		run.client.lag = 0
		run.client.mu.Unlock()
	}
	w.mu.Unlock()
	for _, n := range resource.List(w.admin().Read(), kinds.Nodes, "") {
		if n.Annotations[sim.Lost] != "" {
			w.mark(n.Name, "null")
		}
	}
}

// take decides what happens to a step, and lets it.
func (w *world) take(t *step) {
	we := w.faults
	if we == nil {
		w.steps.give(t, pass)
		return
	}
	ts := w.steps
	if t.notBefore.IsZero() && strings.HasPrefix(t.what, answer) {
		t.notBefore = time.Now().Add(ts.span(0, 40*time.Second))
		return
	}
	if t.notBefore.IsZero() && ts.odds(we.late) {
		t.notBefore = time.Now().Add(ts.span(0, 4*time.Second))
		ts.note("%s %s must wait", t.who, t.what)
		return
	}
	if run := w.running[t.who]; run != nil && strings.HasPrefix(t.what, "write ") && ts.odds(we.dieBefore) {
		w.crash(t.who, ts.span(10*time.Millisecond, 10*time.Second))
		return
	}
	ts.give(t, w.outcomeOf(t))
}

// fateOf rolls what happens to a step.
func (w *world) outcomeOf(t *step) outcome {
	we, ts := w.faults, w.steps
	first := func(list ...float64) int {
		for i, p := range list {
			if ts.odds(p) {
				return i
			}
		}
		return -1
	}
	verb, rest, _ := strings.Cut(t.what, " ")
	switch verb {
	case "take", "look", "answer", "give":
	case "write":
		if w.running[t.who] == nil { // somebody who does not crash
			return [...]outcome{pass, refuse, forget}[1+first(we.noStore, we.noAnswer)]
		}
		return [...]outcome{pass, refuse, forget, die}[1+first(we.noStore, we.noAnswer, we.dieAfter)]
	case "hear":
		never := we.lose
		if t.who == "scheduler" || t.who == "sim-heartbeat" { // no safety net: they hear that they missed something
			never = 0
		}
		return [...]outcome{pass, lose, gap, again, part}[1+first(never, we.gap, we.again, we.part)]
	case "measure", "review":
		return [...]outcome{pass, refuse}[1+first(we.refuse)]
	case "get":
		return [...]outcome{pass, refuse, slow}[1+first(we.refuse, we.slow)]
	default:
		if w.running[t.who] == nil || strings.HasPrefix(rest, "events ") {
			return pass
		}
		c := we.conflict
		if verb == "create" {
			c = 0
		}
		return [...]outcome{pass, refuse, forget, conflict, slow}[1+first(we.refuse, we.forget, c, we.slow)]
	}
	return pass
}

// restart starts a loop again that died.
func (w *world) restart(name string) {
	if run := w.running[name]; run != nil {
		w.restartAfter(name, run, w.steps.span(10*time.Millisecond, 10*time.Second))
	}
}
