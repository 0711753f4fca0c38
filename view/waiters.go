package view

import (
	"slices"
	"sync"
	"time"
)

// waiters wait for news of a view: calls of Wait for a revision, and cursors for changes. The value is guarded by the view's
// mu; the channels are closed without it.
type waiters struct {
	calls  []*waiting
	all    chan struct{} // closed at the next change; nil when nobody waits
	tables []*table      // whose cursors are to be woken
	pace   pace
}

// waiting is one call of Wait that had to wait.
type waiting struct {
	t    *table // nil: for the revision of the whole view
	rev  int64
	done chan struct{}
}

// reached says that the call need not wait; now is the revision of the whole view.
func (w *waiting) reached(now int64) bool {
	if w.t != nil {
		now = max(now, w.t.rev)
	}
	return now >= w.rev
}

// touch puts a table on the list of those whose cursors are to be woken.
func (w *waiters) touch(t *table) {
	if !t.woken {
		t.woken = true
		w.tables = append(w.tables, t)
	}
}

// cursors takes out the channels to close for the tables that changed.
func (w *waiters) cursors() (chs []chan struct{}) {
	take := func(ch *chan struct{}) {
		if *ch != nil {
			chs = append(chs, *ch)
			*ch = nil
		}
	}
	for _, t := range w.tables {
		t.woken = false
		take(&t.wake)
		for c := range t.cursors {
			take(&c.wake)
		}
		clear(t.cursors)
	}
	if len(w.tables) > 0 {
		take(&w.all)
	}
	w.tables = w.tables[:0]
	return chs
}

// due takes out the channels to close for the calls that wait for no more than revision now.
func (w *waiters) due(now int64) (chs []chan struct{}) {
	if len(w.calls) == 0 {
		return nil
	}
	w.calls = slices.DeleteFunc(w.calls, func(x *waiting) bool {
		if !x.reached(now) {
			return false
		}
		chs = append(chs, x.done)
		return true
	})
	return chs
}

// A pace bounds how often cursors are woken, and so coalesces changes. In a storm of writes what happens between two wakes lies together,
// and dozens of readers look at it once. The first wakes of a burst are not put off, so that what follows from a single write follows at
// once.
type pace struct {
	every time.Duration   // 0: whenever something happens
	spare int             // wakes that are not put off
	since time.Time       // up to which spare is counted
	late  []chan struct{} // that wait to be closed; nil: none
}

// spareWakes bounds the wakes that are not put off after a rest.
const spareWakes = 16

// take returns for how long the wake is put off; 0: it may come.
func (p *pace) take(now time.Time) time.Duration {
	if p.every == 0 {
		return 0
	}
	if n := now.Sub(p.since) / p.every; n > 0 {
		p.spare = int(min(spareWakes, time.Duration(p.spare)+n))
		p.since = now
	}
	if p.spare > 0 {
		p.spare--
		return 0
	}
	return p.every - now.Sub(p.since)
}

// wake takes out the channels to close for the tables that changed; what is put off is closed later. It needs mu.
func (w *waiters) wake(mu sync.Locker) []chan struct{} {
	chs, p := w.cursors(), &w.pace
	switch {
	case len(chs) == 0:
		return nil
	case p.late != nil:
		p.late = append(p.late, chs...)
		return nil
	}
	wait := p.take(time.Now())
	if wait == 0 {
		return chs
	}
	p.late = chs
	time.AfterFunc(wait, func() {
		mu.Lock()
		chs := p.late
		p.late = nil
		p.take(time.Now())
		mu.Unlock()
		closeAll(chs)
	})
	return nil
}

func closeAll(chs []chan struct{}) {
	for _, ch := range chs {
		close(ch)
	}
}
