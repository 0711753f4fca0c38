// Package eventually polls in tests: a condition is looked at until it holds or the test fails. A test asks for a state that
// comes, and never sleeps for as long as that usually takes.
package eventually

import (
	"testing"
	"time"
)

// Patience is the usual limit, for a machine that is busy with much else.
const Patience = time.Minute

// The pause between two looks grows from the one to the other.
const (
	firstPause = time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// True polls until ok is true, and fails the test after Patience. what says what was to be true.
func True(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Within(t, Patience, what, ok)
}

// Within is True with another limit.
func Within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	Sees(t, limit, what, func() (bool, string) { return ok(), "it is not so" })
}

// Sees polls until look reports true, and fails the test after the limit. The failure tells what was seen last. It may be called when
// the test cleans up, after its context has ended.
func Sees[S any](t testing.TB, limit time.Duration, what string, look func() (ok bool, seen S)) {
	t.Helper()
	pause := time.NewTimer(firstPause)
	defer pause.Stop()
	end := time.Now().Add(limit)
	for next := firstPause; ; {
		ok, seen := look()
		switch {
		case ok:
			return
		case time.Now().After(end):
			t.Fatalf("%s: not within %s; at last: %v", what, limit, seen)
		}
		next = min(2*next, lastPause)
		pause.Reset(next)
		<-pause.C
	}
}
