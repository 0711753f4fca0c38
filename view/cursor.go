package view

import (
	"cmp"
	"context"
	"slices"

	"github.com/kloop-dev/kloop/resource"
)

// maxBatch bounds the changes of a batch, except that changes of one write stay together.
const maxBatch = 1024

// A Batch is the unit that a cursor returns: the changes of whole revisions, in order, and a snapshot that holds
// them all: the newest, so it may be ahead of them. Changes is shared and must not be changed.
type Batch struct {
	Snapshot *Snapshot
	Changes  []Change
}

// A Cursor is a place in the history. It holds nothing but its position and needs no closing. It is not safe
// for concurrent use.
type Cursor struct {
	v      *View
	tables []*table // nil: all
	seq    uint64   // everything up to here was handed out
	after  int64    // a revision that was ahead of the view: changes up to it are not wanted
	rev    int64    // revision of the last change handed out
	err    error
	wake   chan struct{} // closed when a table of several may have news; guarded by mu
}

// Cursor starts behind revision `after`; kinds limits what it reports (none: all kinds, also those that come
// later). When the history does not reach back so far, reading from it fails with ErrExpired. `after` may lie
// ahead of the view. In a view fed by kind it makes sense for one kind only; see CursorAt.
func (v *View) Cursor(after int64, kinds ...resource.Kind) *Cursor {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.cursor(kinds)
	c.seq, c.rev = v.seq, after
	if after > c.now() {
		c.after = after
	}
	tables := c.tables
	if tables == nil {
		tables = v.tables
		if after < v.floor {
			c.err = ErrExpired
		}
	}
	for _, t := range tables {
		if after < t.log.floor {
			c.err = ErrExpired
		}
		if first, ok := t.log.behind(after); ok {
			c.seq = min(c.seq, first.seq-1)
		}
	}
	return c
}

// CursorAt starts at a snapshot of this view: it reports what changed since it was taken.
func (v *View) CursorAt(s *Snapshot, kinds ...resource.Kind) *Cursor {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.cursor(kinds)
	c.seq, c.rev = s.seq, s.rev
	if len(kinds) == 1 {
		c.rev = s.Revision(kinds[0])
	}
	return c
}

func (v *View) cursor(kinds []resource.Kind) *Cursor {
	c := &Cursor{v: v}
	for _, k := range kinds {
		c.tables = append(c.tables, v.table(k.Info().GR(), k))
	}
	return c
}

// Next waits until there are changes of the cursor's kinds and returns them: as many as lie together, which may
// not be all, and at most about a thousand. It fails with ErrExpired when changes were lost since the last call, and with the
// context's error.
func (c *Cursor) Next(ctx context.Context) (Batch, error) {
	for {
		b, wake, err := c.read(true)
		if err != nil || len(b.Changes) > 0 {
			return b, err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		}
	}
}

// TryNext is Next without waiting: only a batch without changes says that there are no more now.
func (c *Cursor) TryNext() (Batch, error) {
	b, _, err := c.read(false)
	return b, err
}

// TryChanges is TryNext for those who need no snapshot, which costs those who write.
func (c *Cursor) TryChanges() ([]Change, error) {
	c.v.mu.Lock()
	defer c.v.mu.Unlock()
	return c.advance()
}

// Changed returns a channel that is closed when TryNext may have something to return, for loops that wait for
// several things. It may close without reason; call TryNext and Changed again.
func (c *Cursor) Changed() <-chan struct{} {
	c.v.mu.Lock()
	defer c.v.mu.Unlock()
	if run, _ := c.gather(); len(run) > 0 || c.err != nil {
		now := make(chan struct{})
		close(now)
		return now
	}
	return c.subscribe()
}

// Revision returns the revision up to which everything was handed out: it moves on without changes of the
// cursor's kinds, so a bookmark carries it.
func (c *Cursor) Revision() int64 {
	c.v.mu.Lock()
	defer c.v.mu.Unlock()
	if run, _ := c.gather(); len(run) > 0 || c.err != nil {
		return c.rev
	}
	return max(c.now(), c.rev)
}

// now is the revision of what the cursor could know. It needs mu.
func (c *Cursor) now() int64 {
	now := c.v.rev.Load()
	if len(c.tables) == 1 {
		now = max(now, c.tables[0].rev)
	}
	return now
}

func (c *Cursor) read(wait bool) (Batch, <-chan struct{}, error) {
	v := c.v
	v.mu.Lock()
	defer v.mu.Unlock()
	run, err := c.advance()
	switch {
	case err != nil:
		return Batch{}, nil, err
	case len(run) == 0 && wait:
		return Batch{}, c.subscribe(), nil
	}
	return Batch{Snapshot: v.snapshot(), Changes: run}, nil, nil
}

// advance returns what the cursor hands out next, and moves it on. It needs mu.
func (c *Cursor) advance() ([]Change, error) {
	run, to := c.gather()
	if c.err != nil {
		return nil, c.err
	}
	if c.seq = to; len(run) > 0 {
		c.after, c.rev = 0, run[len(run)-1].Rev
	}
	return run, nil
}

// gather returns what the next read hands out and the position behind it. It needs mu.
func (c *Cursor) gather() (run []Change, to uint64) {
	to = c.seq
	if c.err != nil {
		return nil, to
	}
	for to < c.v.seq {
		if run, to = c.runs(to); c.err != nil {
			return nil, to
		}
		if run = c.wanted(run); len(run) > 0 {
			return run, to
		}
	}
	return nil, to
}

// wanted drops what the caller of Cursor knew already.
func (c *Cursor) wanted(run []Change) []Change {
	if c.after == 0 {
		return run
	}
	i := slices.IndexFunc(run, func(x Change) bool { return x.Rev > c.after })
	if i < 0 {
		return nil
	}
	return run[i:]
}

// runs returns the changes behind seq, and up to which one they are complete.
func (c *Cursor) runs(seq uint64) (run []Change, to uint64) {
	tables := c.tables
	if tables == nil {
		tables = c.v.tables
	}
	found, to := 0, c.v.seq
	var merged []Change
	for _, t := range tables {
		if seq < t.log.lost {
			c.err = ErrExpired
			return nil, seq
		}
		next, more := t.log.after(seq)
		if next, more = cut(next, more); len(next) == 0 {
			continue
		}
		if more {
			to = min(to, next[len(next)-1].seq)
		}
		if found++; found == 1 {
			run = next
			continue
		}
		if found == 2 {
			merged = append(merged, run...)
		}
		merged = append(merged, next...)
	}
	if found < 2 {
		return run, to
	}
	return merge(merged, to)
}

// merge orders the changes of several kinds, of which those up to `to` are complete.
func merge(run []Change, to uint64) ([]Change, uint64) {
	slices.SortStableFunc(run, func(a, b Change) int { return cmp.Compare(a.seq, b.seq) })
	end := len(run)
	for end > 0 && run[end-1].seq > to {
		end--
	}
	run, more := cut(run[:end], false)
	if more {
		to = run[len(run)-1].seq
	}
	return run, to
}

// cut bounds a run without dividing a write.
func cut(run []Change, more bool) ([]Change, bool) {
	if len(run) <= maxBatch {
		return run, more
	}
	n := maxBatch
	for n < len(run) && run[n].seq == run[n-1].seq {
		n++
	}
	return run[:n:n], more || n < len(run)
}

// subscribe returns a channel that is closed at the next change of the cursor's kinds. It needs mu.
func (c *Cursor) subscribe() <-chan struct{} {
	switch {
	case c.tables == nil:
		return lazy(&c.v.waiters.all)
	case len(c.tables) == 1:
		return lazy(&c.tables[0].wake)
	}
	for _, t := range c.tables {
		if t.cursors == nil {
			t.cursors = map[*Cursor]struct{}{}
		}
		t.cursors[c] = struct{}{}
	}
	return lazy(&c.wake)
}

func lazy(ch *chan struct{}) <-chan struct{} {
	if *ch == nil {
		*ch = make(chan struct{})
	}
	return *ch
}
