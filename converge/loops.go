package converge

import (
	"fmt"
	"slices"
	"time"

	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/loop"
)

// loopOf is a loop's figures as an object of the API.
func loopOf(s loop.Stats) *convergence.Loop {
	l := &convergence.Loop{Depth: int64(s.Depth), Running: int64(s.Running), Waiting: int64(s.Waiting), Failing: int64(s.Failing),
		Keys:   int64(s.Keys),
		Oldest: rough(s.Oldest), Rate: fmt.Sprintf("%.1f/s", s.Rate), Done: s.Done, Failed: s.Failed, P99: rough(s.P99),
		LastSuccess: Stamp(s.LastGood), Keeps: s.Keeps, Writes: slices.Clone(s.Writes)}
	if s.LastErr != "" {
		l.LastError = &convergence.Failure{Message: s.LastErr, Count: s.ErrRow, Last: Stamp(s.LastFail)}
	}
	l.Name = s.Name
	return l
}

// rough words a duration with as many digits as matter.
func rough(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
