package plan

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
)

// A turn is a step of a loop that races with steps of others, and waits for leave.
type turn struct {
	who, what string
	writes    bool
	leave     chan struct{}
	seq       int
}

// turns puts the steps of all loops into one order. When everybody rests or waits, the dice pick who goes next: what happens then
// follows from the seed, however the machine schedules goroutines.
type turns struct {
	mu      sync.Mutex
	waiting []*turn // in an order that does not depend on who came first, unless they are alike
	count   int
	bell    chan struct{} // rung when somebody waits
	dice    *rand.Rand
}

func newTurns(seed uint64) *turns {
	return &turns{bell: make(chan struct{}, 1), dice: rand.New(rand.NewPCG(seed, 1))}
}

// ask waits for the step's turn. It fails only with ctx. Without turns everybody goes at once, as in a cluster.
func (ts *turns) ask(ctx context.Context, t *turn) error {
	if err := ctx.Err(); err != nil || ts == nil {
		return err
	}
	t.leave = make(chan struct{}, 1)
	ts.mu.Lock()
	ts.count++
	t.seq = ts.count
	at, _ := slices.BinarySearchFunc(ts.waiting, t, inOrder)
	ts.waiting = slices.Insert(ts.waiting, at, t)
	ts.mu.Unlock()
	select {
	case ts.bell <- struct{}{}:
	default:
	}
	select {
	case <-t.leave:
		return nil
	case <-ctx.Done():
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.waiting = slices.DeleteFunc(ts.waiting, func(o *turn) bool { return o == t })
	return ctx.Err()
}

func inOrder(a, b *turn) int {
	return cmp.Or(cmp.Compare(a.who, b.who), cmp.Compare(a.what, b.what), cmp.Compare(a.seq, b.seq))
}

// next lets one of those that wait go, and returns its turn; nil: nobody waits. All others must rest meanwhile.
func (ts *turns) next() *turn {
	if ts == nil {
		return nil
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if len(ts.waiting) == 0 {
		return nil
	}
	at := ts.dice.IntN(len(ts.waiting))
	t := ts.waiting[at]
	ts.waiting = slices.Delete(ts.waiting, at, at+1)
	t.leave <- struct{}{}
	return t
}
