package simtest

import (
	"fmt"
	"math/rand"
	randv2 "math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
)

// outcome is the end of a run and the way there.
type outcome struct {
	end     []string
	wrong   []string
	hit     []Fault
	places  []place
	asked   []string
	changes int
	deleted map[string]int
	flaps   map[string]int
	recent  []string
	turns   []taken
}

// start is the date on which all runs begin.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// play runs the program once under the given faults. A goroutine that is left over at the end is an outcome too.
func (c *Config) play(t *testing.T, seed uint64, faults []Fault) (out outcome) {
	defer func() {
		if e := recover(); e != nil {
			if !strings.Contains(fmt.Sprint(e), "deadlock") {
				panic(e)
			}
			out.wrong = append(out.wrong, "goroutines are left when the manager has ended:\n"+leftover())
		}
	}()
	rand.Seed(int64(seed)) //lint:ignore SA1019 the pauses of client-go come from there, and are to be those of the seed
	utilrand.Seed(int64(seed))
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(start))
		d, err := openDoor(seed, c.Nodes)
		tr := &http.Transport{DialContext: d.pipes.Dial, DisableCompression: true}
		w := &World{c: c, door: d, tr: tr, run: &run{faults: faults, count: map[string]int{}, luck: randv2.New(randv2.NewPCG(seed, 4))}}
		w.run.seen = newWitness(w)
		d.all.Go(func() { w.run.seen.watch(d.ctx) })
		if err != nil {
			w.run.fail("start the cluster: %v", err)
		} else {
			w.whole()
		}
		out = w.outcome()
		d.stop()
		w.run.lives.Wait()
		tr.CloseIdleConnections()
		d.close()
	})
	return out
}

// whole is a run from the first object to the verdict.
func (w *World) whole() {
	cfg := w.Rest()
	user, err := w.client(cfg)
	if err != nil {
		w.run.fail("the user's client: %v", err)
		return
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := w.prepare(w.door.ctx, user); err != nil {
		w.run.fail("prepare: %v", err)
		return
	}
	if w.c.Beside != nil {
		w.door.all.Go(func() { w.c.Beside(w.door.ctx, w) })
	}
	w.live()
	w.settle(w.c.Quiet)
	if err := (&User{Client: user, w: w}).play(w.c.Program); err != nil {
		w.run.fail("%v", err)
	}
	w.settle(w.c.Quiet)
	w.calm()
	w.settle(w.c.Quiet + retries)
	w.judge()
}

// retries bounds the pauses of clients that failed: those of client-go's reflectors grow to a minute with their jitter.
const retries = 3 * time.Minute

// judge finds what is wrong when all should be well.
func (w *World) judge() {
	w.door.turns.settle()
	if time.Since(w.run.seen.last()) < w.c.Quiet {
		w.run.fail("it does not come to rest; last were:\n    %s", strings.Join(w.run.seen.recent, "\n    "))
		return
	}
	before := w.run.seen.changes()
	w.restart()
	w.settle(w.c.Quiet)
	if n := w.run.seen.changes() - before; n > 0 {
		list := w.run.seen.recent
		w.run.fail("a second pass over all, in a new process, writes %d times where nothing was to do:\n    %s", n,
			strings.Join(list[max(0, len(list)-n):], "\n    "))
	}
	for _, s := range leaked(w.door.Set, w.door.Read()) {
		w.run.fail("%s", s)
	}
}

// restart ends the present life and starts another, which looks at everything.
func (w *World) restart() {
	w.run.mu.Lock()
	l := w.run.now
	w.run.mu.Unlock()
	l.die()
	if w.bury(l) {
		w.live()
		sleep(w.door.ctx, w.c.Quiet)
	}
}

// outcome ends the operator and sums the run up.
func (w *World) outcome() outcome {
	r := w.run
	w.door.turns.settle()
	out := outcome{changes: r.seen.changes(), end: ending(w.door.Set, w.door.Read(), w.c.Ignore)}
	r.mu.Lock()
	l := r.now
	r.mu.Unlock()
	if l != nil {
		l.die()
		w.bury(l)
	}
	w.door.turns.mu.Lock()
	out.turns = w.door.turns.taken
	w.door.turns.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	out.wrong, out.hit, out.places, out.asked = r.wrong, r.hit, r.places, r.asked
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	out.deleted, out.flaps, out.recent = r.seen.deleted, r.seen.flaps, r.seen.recent
	return out
}

// sameAs says whether two runs went the same way, and the turns that did if not.
func (o outcome) sameAs(other outcome) (bool, int) {
	for i := range min(len(o.turns), len(other.turns)) {
		if o.turns[i] != other.turns[i] {
			return false, i
		}
	}
	return len(o.turns) == len(other.turns), min(len(o.turns), len(other.turns))
}

// leftover shows the stacks of goroutines that live in bubbles, of ten at most.
func leftover() string {
	buf := make([]byte, 1<<20)
	var list []string
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if head, _, _ := strings.Cut(stack, "\n"); strings.Contains(head, "synctest bubble") && len(list) < 10 {
			list = append(list, stack)
		}
	}
	return strings.Join(list, "\n\n")
}
