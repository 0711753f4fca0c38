package client

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// feed is a Feed over a view, the server's own or one that a Remote fills.
type feed struct {
	view  *view.View
	kinds []resource.Kind
	at    *view.Cursor // nil: start, or start again, with a Reset
	reuse bool
	last  []Change // what was handed out, where that is used again
}

// keptChanges is the number of changes that a feed has room for while it waits: there are as many feeds as loops.
const keptChanges = 64

// rooms holds what has room for more changes than that, for the feeds that are busy.
var rooms = sync.Pool{New: func() any { return new([]Change) }}

// Reuse implements Feed.
func (f *feed) Reuse() { f.reuse = true }

// NewFeed returns a feed of the changes in a view.
func NewFeed(v *view.View, kinds ...resource.Kind) Feed { return &feed{view: v, kinds: kinds} }

// Next implements Feed.
func (f *feed) Next(ctx context.Context) (Batch, error) {
	f.release()
	for f.at != nil {
		b, err := f.at.Next(ctx)
		if errors.Is(err, view.ErrExpired) {
			f.at = nil // fell behind the history: look at everything
			break
		}
		if err != nil {
			return Batch{}, err
		}
		if len(b.Changes) > 0 {
			return f.batch(b), nil
		}
	}
	snap := f.view.Snapshot()
	f.at = f.view.CursorAt(snap, f.kinds...)
	return Batch{Read: snap, Reset: true}, ctx.Err()
}

// release forgets what was handed out: it is not held while the feed waits.
func (f *feed) release() {
	if clear(f.last); cap(f.last) > keptChanges {
		room := f.last
		f.last = nil
		rooms.Put(&room)
	}
}

// room returns space for n changes.
func (f *feed) room(n int) []Change {
	if !f.reuse {
		return make([]Change, n)
	}
	if n > keptChanges && n > cap(f.last) {
		f.last = *rooms.Get().(*[]Change)
	}
	f.last = slices.Grow(f.last[:0], n)[:n]
	return f.last
}

func (f *feed) batch(b view.Batch) Batch {
	out := Batch{Read: b.Snapshot, Changes: f.room(len(b.Changes))}
	for i, c := range b.Changes {
		out.Changes[i] = Change{Kind: c.Kind, Rev: c.Rev}
		if c.Old != nil {
			out.Changes[i].Old = c.Old.Object
		}
		if c.New != nil {
			out.Changes[i].New = c.New.Object
		}
	}
	return out
}

// Follow hands on a feed's batches until ctx ends, for loops that wait for other things beside.
func Follow(ctx context.Context, feed Feed, to chan<- Batch) {
	for {
		b, err := feed.Next(ctx)
		if err != nil {
			return // the context ended
		}
		select {
		case to <- b:
		case <-ctx.Done():
			return
		}
	}
}
