package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// An audience is the watches of one kind in one version. Those that have been told all that has happened sit and wait
// together: one goroutine reads the changes for all of them, and finds whom each concerns by index. So a change costs what its deliveries
// cost, however many agents watch pods that are not theirs.
//
// A watch that gets an event wakes, unless delivery can't block (Request.Offer): it goes on by itself, from where
// the audience has come, and sits down again when it has read all. So nobody waits for a slow reader.
type audience struct {
	of      audienceKey
	s       *reads
	watches int                // sitting or not; guarded by audiences.mu, as is the next
	stop    context.CancelFunc // nil: nobody reads

	mu      sync.Mutex
	cursor  *view.Cursor // what those who sit have been told; nil: nobody reads
	before  view.Cursor  // where it was before the batch at hand
	seats   map[seat][]*watch
	indexed int      // who sits by an indexed field
	heard   []*watch // whom the batch at hand concerns
	risen   []*watch // who gets up because of it; run's alone
}

// audienceKey holds what the watches of an audience have in common.
type audienceKey struct {
	kind   resource.Kind
	spoken schema.GroupVersionKind
}

// A seat is a field and the value that an object must have there to concern those who sit on it; without a field they want all.
type seat struct{ field, value string }

// crowd is from how many deliveries on all processors share them.
const crowd = 128

// audiences are those of all kinds that are watched.
type audiences struct {
	mu sync.Mutex
	of map[audienceKey]*audience
}

// join returns the audience of the watch, which leaves it in the end.
func (all *audiences) join(w *watch) *audience {
	all.mu.Lock()
	defer all.mu.Unlock()
	key := audienceKey{w.kind, w.spoken}
	a := all.of[key]
	if a == nil {
		a = &audience{of: key, s: w.s, seats: map[seat][]*watch{}}
		if all.of == nil {
			all.of = map[audienceKey]*audience{}
		}
		all.of[key] = a
	}
	if a.watches++; a.watches == 2 && a.stop == nil { // one alone reads for itself
		ctx, stop := context.WithCancel(context.Background()) // until the last watch leaves
		a.stop = stop
		go a.run(ctx)
	}
	return a
}

// leave ends the watch's part in the audience; it must have got up.
func (a *audience) leave() {
	a.s.audiences.mu.Lock()
	defer a.s.audiences.mu.Unlock()
	if a.watches--; a.watches > 0 {
		return
	}
	delete(a.s.audiences.of, a.of)
	if a.stop != nil {
		a.stop()
	}
}

// sit lets the watch wait with the others if it knows what they know. What it is then to be told comes through woken, unless it
// gets up before.
func (a *audience) sit(w *watch) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cursor == nil || w.cursor.Behind(a.cursor) {
		return false
	}
	at := w.choice.seat()
	if w.choice.index != nil {
		a.indexed++
	}
	w.seated, w.at, w.news = true, len(a.seats[at]), nil
	a.seats[at] = append(a.seats[at], w)
	return true
}

// rise lets a watch that sat down go on by itself, and returns what it is still to be told.
func (a *audience) rise(w *watch) []Event {
	a.mu.Lock()
	seated := w.seated
	if seated {
		a.unseat(w)
	}
	a.mu.Unlock()
	if seated {
		return nil
	}
	return <-w.woken // it was woken meanwhile
}

// unseat needs mu.
func (a *audience) unseat(w *watch) {
	at := w.choice.seat()
	row := a.seats[at]
	last := row[len(row)-1]
	row[w.at], last.at, row[len(row)-1] = last, w.at, nil
	if a.seats[at] = row[:len(row)-1]; len(row) == 1 {
		delete(a.seats, at)
	}
	if w.choice.index != nil {
		a.indexed--
	}
	w.seated = false
	w.cursor.Follow(a.cursor)
}

// run reads the changes until the last watch has left.
func (a *audience) run(ctx context.Context) {
	a.begin()
	for {
		select {
		case <-a.cursor.Changed():
			a.read()
		case <-ctx.Done():
			return
		}
	}
}

// begin lets watches sit down: from now on changes are read.
func (a *audience) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cursor = a.s.View.CursorAt(a.s.View.Snapshot(), a.of.kind)
}

// read tells all changes that are there. When there are none, or it can't be said which, all get up and see for themselves: so they
// do when the kind is no longer what they watch.
func (a *audience) read() {
	for first, more := true, true; more; first = false {
		more = a.readOn(first)
		for i, w := range a.risen { // without the lock: they are about to sit down again
			w.woken <- w.news
			a.risen[i] = nil
		}
		a.risen = a.risen[:0]
	}
}

// readOn tells one batch and says whether there may be more.
func (a *audience) readOn(first bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before = *a.cursor
	changes, err := a.cursor.TryChanges()
	if err == nil && !a.concernAll(changes) {
		*a.cursor, err = a.before, errPanicked
	}
	switch {
	case err != nil:
		a.dismiss() // they go on from where the cursor was
		a.cursor = a.s.View.CursorAt(a.s.View.Snapshot(), a.of.kind)
		return false
	case len(changes) == 0:
		if first || !served(a.s.Kinds, a.of.kind, a.of.spoken) {
			a.dismiss()
		}
		return false
	}
	a.deliver()
	return true
}

// errPanicked has all watches see for themselves: whose choice panics ends with its request, and no other, nor the process.
var errPanicked = errors.New("panic")

// concernAll notes the changes for those whom they are events. It is false, and none is noted, after a panic.
func (a *audience) concernAll(changes []view.Change) (ok bool) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		slog.Error("watches of a kind can't be told together", "kind", a.of.spoken, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		for _, w := range a.heard {
			w.news = nil
		}
		clear(a.heard)
		a.heard = a.heard[:0]
	}()
	for i := range changes {
		a.concern(&changes[i])
	}
	return true
}

// dismiss needs mu.
func (a *audience) dismiss() {
	for _, row := range a.seats {
		for _, w := range slices.Clone(row) {
			a.wake(w)
		}
	}
}

// wake lets a watch get up. It needs mu.
func (a *audience) wake(w *watch) {
	a.unseat(w)
	a.risen = append(a.risen, w)
}

// concern notes the change for those whom it is an event.
func (a *audience) concern(x *view.Change) {
	var at [2 * 4]seat
	for _, p := range a.places(at[:0], x) {
		for _, w := range a.seats[p] {
			if w.cursor.Passed(x) {
				continue
			}
			if e, ok := w.event(x); ok {
				if len(w.news) == 0 {
					a.heard = append(a.heard, w)
				}
				w.news = append(w.news, e)
			}
		}
	}
}

// places appends the seats whose watches the change may concern, each once.
func (a *audience) places(at []seat, x *view.Change) []seat {
	at = append(at, seat{})
	for _, e := range [...]*view.Entry{x.Old, x.New} {
		if e == nil {
			continue
		}
		at = append(at, seat{placeName, e.Object.GetName()}, seat{placeNamespace, e.Object.GetNamespace()})
		if a.indexed > 0 {
			for _, f := range a.of.kind.Info().Indexed {
				at = append(at, seat{f, a.of.kind.Field(e.Object, f)})
			}
		}
	}
	out := at[:0]
	for _, p := range at {
		if len(a.seats[p]) > 0 && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// deliver tells what concern noted: at once where that can't block, otherwise the watch gets up.
func (a *audience) deliver() {
	heard := a.heard
	took := make([]bool, len(heard))
	share := func(from, to int) {
		for i := from; i < to; i++ {
			took[i] = heard[i].offered()
		}
	}
	if ways := runtime.GOMAXPROCS(0); len(heard) >= crowd && ways > 1 {
		var all sync.WaitGroup
		for i := range ways {
			all.Go(func() { share(i*len(heard)/ways, (i+1)*len(heard)/ways) })
		}
		all.Wait()
	} else {
		share(0, len(heard))
	}
	for i, w := range heard {
		if took[i] {
			clear(w.news)
			w.news = w.news[:0]
			continue
		}
		a.wake(w)
	}
	clear(heard)
	a.heard = heard[:0]
}

// offered tells a watch its news if that can't block.
func (w *watch) offered() (took bool) {
	if w.offer == nil {
		return false
	}
	defer func() {
		if recover() != nil {
			took = false // it panics again where its request ends of it
		}
	}()
	if !w.offer(w.news) {
		return false
	}
	w.told = w.news[len(w.news)-1].Rev
	return true
}

// Names of the seats by name and namespace.
const (
	placeName      = "metadata.name"
	placeNamespace = "metadata.namespace"
)

// seat is by the requirement that fewest objects meet.
func (c *choice) seat() seat {
	switch {
	case c.name != "":
		return seat{placeName, c.name}
	case c.index != nil:
		return seat{c.index.Field, c.index.Value}
	case c.ns != "":
		return seat{placeNamespace, c.ns}
	}
	return seat{}
}
