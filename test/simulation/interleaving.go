// Package simulation runs whole clusters, loops, scheduler, simulated nodes and all, in simulated time and under seeded
// faults, and checks that they converge: invariants hold at every revision, and the end is the one that a run without
// faults reaches.
//
// A run is one thread of steps. Whoever is about to do something that races with others, take a key, take in changes,
// call the server, write to the store, asks for its step and waits. When all others rest, the run picks one of those
// that wait by its seeded dice, and what goes wrong with it. So a seed says everything: the same one replays exactly.
//
//	go test ./test/simulation -run TestSeeds -seed 17 -v     one seed, with what happened
//	make sim SEEDS=10000                                many
package simulation

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/kloop-dev/kloop/trail"
)

// A step is something that races with others and waits until the run lets it happen.
type step struct {
	who, what string
	why       string      // the object for which it is taken, by which steps of the same words differ
	ready     func() bool // nil: always. It is asked on the run's goroutine while all others rest
	leave     chan outcome
	notBefore time.Time
	seq       int
}

// An outcome is the result of a step.
type outcome uint8

const (
	pass     outcome = iota
	refuse           // it does not happen, and fails
	forget           // it happens, and seems to fail
	conflict         // it fails as if another had been faster
	die              // it happens, and the one who took it dies before hearing of it
	lose             // of changes: they never arrive
	gap              // of changes: they are lost, and the reader hears so
	again            // of changes: they arrive twice
	part             // of changes: only some arrive now
	slow             // of calls: it happens, and the answer comes much later
)

var outcomes = [...]string{"", " REFUSED", " FORGOTTEN", " CONFLICT", " DIED", " LOST", " GAP", " TWICE", " PART", " SLOW"}

// An interleaving holds the steps that wait, and the trace of those taken.
type interleaving struct {
	mu      sync.Mutex
	waiting []*step // in an order that does not depend on who came first, as long as they are not alike
	can     []*step // see next
	count   int
	bell    chan struct{} // rung when somebody waits

	rng   *rand.Rand
	trace traceHash
	taken int
	log   io.Writer                       // nil: nobody reads along
	held  func(t *step) (until time.Time) // zero: not held
}

func newInterleaving(seed uint64) *interleaving {
	return &interleaving{bell: make(chan struct{}, 1), rng: rand.New(rand.NewPCG(seed, 1)), trace: traceHash{sum: fnv.New64a()}}
}

// ask waits until the step may be taken and returns its outcome. It fails when ctx ends, or the power that the step needs.
func (ts *interleaving) ask(ctx, lit context.Context, who, what string, ready func() bool) (outcome, error) {
	if err := cmp.Or(ctx.Err(), lit.Err()); err != nil {
		return 0, err
	}
	t := &step{who: who, what: what, ready: ready, leave: make(chan outcome, 1)}
	if cause := trail.From(ctx); cause != nil {
		t.why = fmt.Sprint(cause.Key)
	}
	ts.mu.Lock()
	ts.count++
	t.seq = ts.count
	at, _ := slices.BinarySearchFunc(ts.waiting, t, before)
	ts.waiting = slices.Insert(ts.waiting, at, t)
	ts.mu.Unlock()
	ts.ring()
	select {
	case f := <-t.leave:
		return f, nil
	case <-ctx.Done():
	case <-lit.Done():
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.waiting = slices.DeleteFunc(ts.waiting, func(x *step) bool { return x == t })
	return 0, cmp.Or(ctx.Err(), context.Canceled)
}

func (ts *interleaving) ring() {
	select {
	case ts.bell <- struct{}{}:
	default:
	}
}

// settle waits until everybody rests or waits for a step.
func (ts *interleaving) settle() {
	synctest.Wait()
	select {
	case <-ts.bell:
	default:
	}
}

func before(a, b *step) int {
	return cmp.Or(cmp.Compare(a.who, b.who), cmp.Compare(a.what, b.what), cmp.Compare(a.why, b.why), cmp.Compare(a.seq, b.seq))
}

// next picks who goes; nil: nobody can.
func (ts *interleaving) next(now time.Time) (t *step, soonest time.Time) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	can := ts.can[:0]
	for _, t := range ts.waiting {
		if t.ready != nil && !t.ready() {
			continue
		}
		until := t.notBefore
		if h := ts.held(t); h.After(until) {
			until = h
		}
		if until.After(now) {
			if soonest.IsZero() || until.Before(soonest) {
				soonest = until
			}
			continue
		}
		can = append(can, t)
	}
	if len(can) == 0 {
		return nil, soonest
	}
	ts.can = can
	return can[ts.rng.IntN(len(can))], soonest
}

// give lets a step happen, and waits for what follows from it without another step.
func (ts *interleaving) give(t *step, f outcome) {
	ts.mu.Lock()
	ts.waiting = slices.DeleteFunc(ts.waiting, func(x *step) bool { return x == t })
	ts.mu.Unlock()
	ts.taken++
	ts.note("%s %s%s", t.who, t.what, outcomes[f])
	t.leave <- f
	ts.settle()
}

// note adds a line to the trace.
func (ts *interleaving) note(format string, args ...any) {
	fmt.Fprintf(&ts.trace, "%d ", time.Now().UnixNano())
	fmt.Fprintf(&ts.trace, format, args...)
	if ts.log != nil {
		fmt.Fprintf(ts.log, "%s ", time.Now().Format("15:04:05.000000"))
		fmt.Fprintf(ts.log, format+"\n", args...)
	}
}

// odds says yes with probability p.
func (ts *interleaving) odds(p float64) bool { return p > 0 && ts.rng.Float64() < p }

// span is a time between two.
func (ts *interleaving) span(from, to time.Duration) time.Duration {
	return from + time.Duration(ts.rng.Int64N(int64(to-from)+1))
}

// traceHash sums up all that happened.
type traceHash struct {
	sum interface {
		io.Writer
		Sum64() uint64
	}
}

func (h *traceHash) Write(p []byte) (int, error) { return h.sum.Write(p) }
