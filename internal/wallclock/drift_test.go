package wallclock

import (
	"testing"
	"time"
)

// A clock that was set is noticed, one that is a little off is not; each step once.
func TestDrift(t *testing.T) {
	var d drift
	for range 3 {
		if d.step(time.Now()) {
			t.Error("nobody set the clock")
		}
	}
	for _, s := range []struct {
		name         string
		wall, steady time.Duration
		set          bool
	}{
		{"both by a second",
			time.Second, time.Second, false},
		{"by less than is noticed",
			3500 * time.Millisecond, 3 * time.Second, false},
		{"set forward",
			time.Hour, 4 * time.Second, true},
		{"going on after that", time.Hour + time.Second, 5 * time.Second, false},
		{"set back", 6 * time.Second, 6 * time.Second, true},
	} {
		if got := d.moved(s.wall, s.steady); got != s.set {
			t.Errorf("%s: the wall clock went on by %v, the steady one by %v: set is %t", s.name, s.wall, s.steady, got)
		}
	}
}
