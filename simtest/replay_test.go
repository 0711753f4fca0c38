package simtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Replay plays seeds twice and returns how many went the same way both times, to the turn.
func Replay(t *testing.T, c Config, seeds int) (same int) {
	quiet()
	c.fill()
	calm := c.play(t, 0, nil)
	for seed := range uint64(seeds) {
		faults := roll(seed+1, c.Faults, c.Most, calm.places, calm.changes)
		a, b := c.play(t, seed+1, faults), c.play(t, seed+1, faults)
		if ok, n := a.sameAs(b); ok {
			same++
		} else {
			t.Logf("seed %d, %v: %d of %d turns are the same; then %v and %v", seed+1, faults, n, len(a.turns), a.turns[n:min(n+3, len(a.turns))],
				b.turns[n:min(n+3, len(b.turns))])
		}
	}
	return same
}

// Play plays so many seeds under the same faults and returns what is wrong.
func Play(t *testing.T, c Config, first, seeds uint64, faults ...Fault) (wrong []string) {
	quiet()
	c.fill()
	calm := c.play(t, 0, nil)
	for seed := first; seed < first+seeds; seed++ {
		wrong = append(wrong, c.compare(calm, c.play(t, seed, faults))...)
	}
	return wrong
}

// Two turns of one run never go at once: each goes alone, when all that followed from the one before has come to rest, in an order that
// is the seed's, whoever came first.
func TestTurns(t *testing.T) {
	order := func(seed uint64, come []string) (got []string) {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			turns := newTurns(ctx, seed)
			var all sync.WaitGroup
			for _, what := range come {
				all.Go(func() {
					turns.wait(ctx, what)
					got = append(got, what)
					time.Sleep(time.Second)
					turns.wait(ctx, what+" again")
					got = append(got, what+" again")
				})
			}
			synctest.Wait()
			all.Go(turns.run)
			time.Sleep(time.Minute)
			turns.settle()
			stop()
			turns.settle()
			turns.wait(ctx, "nobody is left to wait for")
			all.Wait()
		})
		return got
	}
	orders := map[string]bool{}
	for seed := range uint64(20) {
		one, other := order(seed, []string{"a", "b", "c"}), order(seed, []string{"c", "a", "b"})
		if len(one) != 6 || !slices.Equal(one, other) {
			t.Errorf("seed %d: %v and %v", seed, one, other)
		}
		orders[strings.Join(one, ", ")] = true
	}
	if len(orders) < 6 {
		t.Errorf("20 seeds know %d orders only", len(orders))
	}
}
