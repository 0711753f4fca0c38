package server

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// Bounds of what watches that begin share.
const (
	openingFor   = 5 * time.Second // after which a watch begins with a state of its own
	openingFrom  = 500             // objects; fewer are not worth it
	openingMost  = 100_000         // … more are too much to hold
	openingSince = 1000            // changes since; with more it is no longer the state to begin with
	partBytes    = 96 << 10        // of a part's objects, as stored: as JSON it fits a buffer that is used again (reply.Return)
	madeBytes    = 32 << 20        // of all that was made of parts
)

// An opening is the state of a kind that a watch has begun with: its initial events (sendInitialEvents, WatchList, KEP-3157). Those that
// begin soon after it, as hundreds of informers do after a restart of this server, begin with that state too, and hear then of what has
// changed since. So what is sent of it is made once for all of them.
type opening struct {
	snap  *view.Snapshot
	parts []*Part

	// Guarded by openings.mu.
	watches int // that hear of it now
	made    int // bytes that were made of the parts
	gone    bool
}

// A Part is a run of initial events for several watches.
type Part struct {
	Events []Event

	all   *openings
	of    *opening
	mu    sync.Mutex
	asked map[any][]byte // what was made, by key; nil: asked for once
}

// As returns what the function makes of the events. It is made when the second one asks for it by the key, and shared. It returns
// nil without an error when the caller has to do without: nobody else asks, or there is no room.
func (p *Part) As(key any, produce func() ([]byte, error)) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	made, asked := p.asked[key]
	switch {
	case !asked:
		if p.asked == nil {
			p.asked = map[any][]byte{}
		}
		p.asked[key] = nil
		return nil, nil
	case made != nil || !p.all.room(): // what is made now may be too much by one part
		return made, nil
	}
	made, err := produce()
	if err == nil {
		p.asked[key] = made
		p.all.take(p.of, len(made))
	}
	return made, err
}

// openings are those of all kinds, by what is watched.
type openings struct {
	mu   sync.Mutex
	of   map[openingKey]*opening
	made int // bytes
}

type openingKey struct {
	kind   resource.Kind
	spoken schema.GroupVersionKind
	ns     string
}

func (all *openings) room() bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.made < madeBytes
}

func (all *openings) take(o *opening, n int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.made, o.made = all.made+n, o.made+n
}

// begin returns what the watch can begin with in place of the snapshot, and what has changed since then; nil: nothing. The watch
// leaves it when it has heard all. A namespace is counted only when there is nothing to join: that is a walk through all of it.
func (all *openings) begin(w *watch, snap *view.Snapshot) (*opening, []Event) {
	key := openingKey{w.kind, w.spoken, w.choice.ns}
	all.mu.Lock()
	defer all.mu.Unlock()
	if o := all.of[key]; o != nil {
		if since, ok := w.since(o.snap); ok {
			o.watches++
			return o, since
		}
		all.drop(key, o)
	}
	if n := snap.CountTo(w.kind, w.choice.ns, openingMost+1); n < openingFrom || n > openingMost {
		return nil, nil
	}
	o := &opening{snap: snap, watches: 1}
	o.parts = all.cut(o, w)
	if all.of == nil {
		all.of = map[openingKey]*opening{}
	}
	all.of[key] = o
	time.AfterFunc(openingFor, func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		all.drop(key, o)
	})
	return o, nil
}

// cut makes the parts.
func (all *openings) cut(o *opening, w *watch) (parts []*Part) {
	size := partBytes
	for e := range w.choice.from(o.snap, "") {
		if size >= partBytes {
			parts, size = append(parts, &Part{all: all, of: o}), 0
		}
		p := parts[len(parts)-1]
		p.Events = append(p.Events, Event{Type: Added, Entry: e, Rev: e.Rev})
		size += e.Stored()
	}
	return parts
}

// leave ends the part of a watch in an opening.
func (all *openings) leave(o *opening) {
	all.mu.Lock()
	defer all.mu.Unlock()
	o.watches--
	all.free(o)
}

// drop lets no other watch begin with an opening. It needs mu, as does the next.
func (all *openings) drop(key openingKey, o *opening) {
	if all.of[key] == o {
		delete(all.of, key)
	}
	o.gone = true
	all.free(o)
}

func (all *openings) free(o *opening) {
	if o.gone && o.watches == 0 {
		all.made, o.made = all.made-o.made, 0
	}
}

// since returns what has changed from a snapshot until now, and puts the cursor there. It reports false, and leaves the cursor, if
// that is too much or not known.
func (w *watch) since(snap *view.Snapshot) (events []Event, ok bool) {
	c := w.s.View.CursorAt(snap, w.kind)
	for len(events) <= openingSince {
		b, err := c.TryNext()
		if err != nil {
			return nil, false
		}
		if len(b.Changes) == 0 {
			w.cursor, w.told = c, b.Snapshot.Rev()
			return events, true
		}
		events = append(events, w.events(b.Changes)...)
	}
	return nil, false
}
