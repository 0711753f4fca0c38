package view

import "slices"

// waiters wait for news of a view: calls of Wait for a revision, and cursors for changes. The value is guarded by the view's
// mu; the channels are closed without it.
type waiters struct {
	calls  []*waiting
	all    chan struct{} // closed at the next change; nil when nobody waits
	tables []*table      // whose cursors are to be woken
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

// due takes the channels to close out: for the tables that changed, and for the calls that wait for no more than revision now.
func (w *waiters) due(now int64) (chs []chan struct{}) {
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
	if len(w.calls) == 0 {
		return chs
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
