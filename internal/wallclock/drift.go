// Package wallclock tells when somebody sets the wall clock.
package wallclock

import "time"

// A drift knows how far the wall clock has gone from the one that nobody sets.
type drift struct {
	began time.Time
	by    time.Duration
}

// step says whether the wall clock was set since it was asked last.
func (d *drift) step(now time.Time) bool {
	if d.began.IsZero() {
		d.began = now
		return false
	}
	return d.moved(now.Round(0).Sub(d.began.Round(0)), now.Sub(d.began))
}

// moved is the same, of how far both clocks went since the beginning. Small corrections come often and change nothing.
func (d *drift) moved(wall, steady time.Duration) bool {
	by := wall - steady
	if (by - d.by).Abs() < time.Second {
		return false
	}
	d.by = by
	return true
}
