// Package proof runs whole clusters, loops, scheduler, simulated nodes and all, in simulated time and under seeded
// faults, and checks that they converge: invariants hold at every revision, and the end is the one that a run without
// faults reaches.
//
// A run is one thread of turns. Whoever is about to do something that races with others, take a key, take in changes,
// call the server, write to the store, asks for its turn and waits. When all others rest, the run picks one of those
// that wait by its seeded dice, and what goes wrong with it. So a seed says everything: the same one replays exactly.
//
//	go test ./test/proof -run TestSeeds -seed 17 -v     one seed, with what happened
//	make sim SEEDS=10000                                many
package proof

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
)

// A turn is a step that waits for leave.
type turn struct {
	who, what string
	ready     func() bool // nil: always. It is asked on the run's goroutine while all others rest
	leave     chan fate
	notBefore time.Time
	seq       int
}

// A fate is what happens to a step.
type fate uint8

const (
	pass     fate = iota
	refuse        // it does not happen, and fails
	forget        // it happens, and seems to fail
	conflict      // it fails as if another had been faster
	die           // it happens, and the one who took it dies before hearing of it
	lose          // of changes: they never arrive
	gap           // of changes: they are lost, and the reader is told so
	again         // of changes: they arrive twice
	part          // of changes: only some arrive now
)

var fates = [...]string{"", " REFUSED", " FORGOTTEN", " CONFLICT", " DIED", " LOST", " GAP", " TWICE", " PART"}

// turns is who waits, and the record of who went.
type turns struct {
	mu      sync.Mutex
	waiting []*turn // in an order that does not depend on who came first, as long as they are not alike
	can     []*turn // see next
	count   int
	bell    chan struct{} // rung when somebody waits

	dice  *rand.Rand
	trace traceHash
	steps int
	log   io.Writer                       // nil: nobody reads along
	held  func(t *turn) (until time.Time) // zero: not held
}

func newTurns(seed uint64) *turns {
	return &turns{bell: make(chan struct{}, 1), dice: rand.New(rand.NewPCG(seed, 1)), trace: traceHash{sum: fnv.New64a()}}
}

// ask waits for the step's turn and returns its fate. It fails when ctx ends, or the power that the step needs.
func (ts *turns) ask(ctx, lit context.Context, who, what string, ready func() bool) (fate, error) {
	if err := cmp.Or(ctx.Err(), lit.Err()); err != nil {
		return 0, err
	}
	t := &turn{who: who, what: what, ready: ready, leave: make(chan fate, 1)}
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
	ts.waiting = slices.DeleteFunc(ts.waiting, func(x *turn) bool { return x == t })
	return 0, context.Canceled
}

func (ts *turns) ring() {
	select {
	case ts.bell <- struct{}{}:
	default:
	}
}

// settle waits until everybody rests or waits for a turn.
func (ts *turns) settle() {
	synctest.Wait()
	select {
	case <-ts.bell:
	default:
	}
}

func before(a, b *turn) int {
	return cmp.Or(cmp.Compare(a.who, b.who), cmp.Compare(a.what, b.what), cmp.Compare(a.seq, b.seq))
}

// next picks who goes; nil: nobody can.
func (ts *turns) next(now time.Time) (t *turn, soonest time.Time) {
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
	return can[ts.dice.IntN(len(can))], soonest
}

// give lets a step happen, and waits for what follows from it without a turn.
func (ts *turns) give(t *turn, f fate) {
	ts.mu.Lock()
	ts.waiting = slices.DeleteFunc(ts.waiting, func(x *turn) bool { return x == t })
	ts.mu.Unlock()
	ts.steps++
	ts.note("%s %s%s", t.who, t.what, fates[f])
	t.leave <- f
	ts.settle()
}

// note adds a line to the trace.
func (ts *turns) note(format string, args ...any) {
	fmt.Fprintf(&ts.trace, "%d ", time.Now().UnixNano())
	fmt.Fprintf(&ts.trace, format, args...)
	if ts.log != nil {
		fmt.Fprintf(ts.log, "%s ", time.Now().Format("15:04:05.000000"))
		fmt.Fprintf(ts.log, format+"\n", args...)
	}
}

// odds says yes with probability p.
func (ts *turns) odds(p float64) bool { return p > 0 && ts.dice.Float64() < p }

// span is a time between two.
func (ts *turns) span(from, to time.Duration) time.Duration {
	return from + time.Duration(ts.dice.Int64N(int64(to-from)+1))
}

// traceHash sums up all that happened.
type traceHash struct {
	sum interface {
		io.Writer
		Sum64() uint64
	}
}

func (h *traceHash) Write(p []byte) (int, error) { return h.sum.Write(p) }
