package engine

import (
	"sync"
	"time"
)

// busyPause is after which time an object asks again for a target that another pass has.
const busyPause = 100 * time.Millisecond

// targets lets one pass at a time act on a target, and not sooner than every after the last. Nobody waits inside: who is turned away
// comes again, so a slow target takes no worker from the others.
type targets struct {
	every time.Duration

	mu   sync.Mutex
	busy map[string]bool
	next map[string]time.Time // when a target has rested
}

// enter takes a target, or says when to ask again. leave gives it back.
func (t *targets) enter(name string, now time.Time) (wait time.Duration, leave func(time.Time)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy == nil {
		t.busy, t.next = map[string]bool{}, map[string]time.Time{}
	}
	if t.busy[name] {
		return busyPause, nil
	}
	if d := t.next[name].Sub(now); d > 0 {
		return d, nil
	}
	for other, at := range t.next { // what has rested is forgotten: the map holds those of one period
		if !at.After(now) {
			delete(t.next, other)
		}
	}
	t.busy[name] = true
	return 0, func(now time.Time) {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.busy, name)
		if t.every > 0 {
			t.next[name] = now.Add(t.every)
		}
	}
}
