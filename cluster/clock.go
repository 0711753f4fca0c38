package cluster

import (
	"context"

	"github.com/kloop-dev/kloop/internal/wallclock"
	"github.com/kloop-dev/kloop/loop"
)

// ClockPart has loops look again when the wall clock was set: a CronJob's run, a token's end or a deadline may be due at once, and what
// waits goes by the clock that nobody sets.
func ClockPart(loops *loop.Watchers) Part { return clockPart(loops, wallclock.Watch) }

func clockPart(loops *loop.Watchers, watch func(ctx context.Context, ready, set func()) error) Part {
	return Part{"clock", func(ctx context.Context, ready func()) error { return watch(ctx, ready, loops.LookAgain) }}
}
