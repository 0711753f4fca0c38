package server

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

const (
	minWatch      = 30 * time.Minute // an unbounded watch ends after this to twice this
	bookmarkEvery = time.Minute
	lastBookmark  = 2 * time.Second // before a watch times out
	initialBatch  = 500             // events of the initial state that are handed over together
)

// A watch is one call of Watch.
type watch struct {
	s         *reads
	choice    *choice
	kind      resource.Kind
	spoken    schema.GroupVersionKind
	cursor    *view.Cursor
	bookmarks bool
	from      int64 // resourceVersion that the caller began with
	told      int64 // that the caller knows by now
	f         func([]Event) error
	offer     func([]Event) bool // f that never blocks; nil: there is none. See Request.Offer
	share     func(*Part) error  // f for what others get as well; nil: there is none

	audience *audience
	woken    chan []Event // it got up, and is to tell this; holds one
	seated   bool         // guarded by audience.mu, as are the next two
	at       int          // in the row of its seat
	news     []Event      // what the audience has for it
}

// Watch implements Operations.
//
// A watch that the view's history can't serve fails with 410, before the first
// event or in the middle, when its reader was too slow.
func (s *reads) Watch(ctx context.Context, r *Request, opts *metav1.ListOptions, f func([]Event) error) error {
	if opts == nil {
		opts = &metav1.ListOptions{}
	}
	if err := s.checkListOptions(opts, true); err != nil {
		return err
	}
	c, err := choose(s.Kinds.Features(), r, opts)
	if err != nil {
		return err
	}
	w := &watch{s: s, choice: c, kind: r.Kind, spoken: r.Spoken(), bookmarks: opts.AllowWatchBookmarks, f: f, offer: r.Offer, share: r.Share,
		woken: make(chan []Event, 1)}
	initial, err := w.start(ctx, opts)
	if err != nil {
		return err
	}
	if initial != nil {
		end := opts.SendInitialEvents != nil || !s.NoWatchList // a watch from the present state is one with initial events
		if err := w.replay(initial, end && w.bookmarks); err != nil {
			return err
		}
	}
	w.from = w.told
	return w.run(ctx, s.length(opts))
}

// length is the time for which the watch may last: a negative time is over before it begins.
func (s *Core) length(opts *metav1.ListOptions) time.Duration {
	if t := opts.TimeoutSeconds; t != nil && *t != 0 {
		return time.Duration(max(-1, min(*t, int64(24*time.Hour/time.Second)))) * time.Second
	}
	return minWatch + s.upTo(minWatch)
}

// upTo is less than d by chance.
func (s *Core) upTo(d time.Duration) time.Duration {
	return time.Duration(s.Pick(int(d/time.Millisecond))) * time.Millisecond
}

// start places the cursor. The snapshot holds the initial events; nil when the caller wants none.
func (w *watch) start(ctx context.Context, opts *metav1.ListOptions) (*view.Snapshot, error) {
	rev, err := parseRevision(opts.ResourceVersion)
	if err != nil {
		return nil, PlainError(badRevision(opts.ResourceVersion, err))
	}
	state := rev == 0
	if opts.SendInitialEvents != nil {
		state = *opts.SendInitialEvents
	}
	if !state && rev > 0 {
		w.cursor, w.told = w.s.View.Cursor(rev, w.kind), rev
		return nil, nil
	}
	snap, err := w.s.notOlder(ctx, opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w.cursor, w.told = w.s.View.CursorAt(snap, w.kind), snap.Rev()
	if !state {
		return nil, nil
	}
	return snap, nil
}

// replay tells the state of the snapshot as ADDED events, or an earlier one and what has changed since.
func (w *watch) replay(snap *view.Snapshot, end bool) error {
	if w.share != nil && w.choice.all() {
		if o, since := w.s.openings.begin(w, snap); o != nil {
			defer w.s.openings.leave(o)
			for _, p := range o.parts {
				if err := w.share(p); err != nil {
					return err
				}
			}
			return w.conclude(since, w.told, end)
		}
	}
	var events []Event
	for e := range w.choice.from(snap, "") {
		if !w.choice.holds(e.Object) {
			continue
		}
		events = append(events, Event{Type: Added, Entry: e, Rev: e.Rev})
		if len(events) == initialBatch {
			if err := w.f(events); err != nil {
				return err
			}
			events = make([]Event, 0, initialBatch) // f may have kept the others
		}
	}
	return w.conclude(events, snap.Rev(), end)
}

// conclude tells the last of the initial events.
func (w *watch) conclude(events []Event, rev int64, end bool) error {
	if end {
		events = append(events, Event{Type: Bookmark, Rev: rev, Initial: true})
	}
	if len(events) == 0 {
		return nil
	}
	return w.f(events)
}

// run tells changes until the time is over.
func (w *watch) run(ctx context.Context, lasts time.Duration) error {
	end := time.NewTimer(lasts)
	defer end.Stop()
	pause, last := w.s.nextBookmark(lasts)
	mark := time.NewTimer(pause)
	defer mark.Stop()
	deadline := time.Now().Add(lasts)
	if err := w.drain(); err != nil {
		return err
	}
	if err := w.f(nil); err != nil { // the watch stands, even when nothing has happened yet
		return err
	}
	w.audience = w.s.audiences.join(w)
	defer w.audience.leave()
	for {
		sits := w.sociable() && w.audience.sit(w) // first: what ends the watch from here on wakes it
		var changed <-chan struct{}
		if !sits {
			changed = w.cursor.Changed()
		}
		if !served(w.s.Kinds, w.kind, w.spoken) {
			return w.catchUp(sits, nil)
		}
		var news []Event
		due, ended := false, false
		select {
		case news = <-w.woken:
			sits = false
		case <-changed:
		case <-mark.C:
			due = true
		case <-end.C:
			ended = true
		case <-ctx.Done():
			ended = true
		}
		if ended {
			if sits {
				w.audience.rise(w)
			}
			return nil
		}
		if err := w.catchUp(sits, news); err != nil {
			return err
		}
		if due {
			if err := w.bookmark(last); err != nil {
				return err
			}
			pause, last = w.s.nextBookmark(time.Until(deadline))
			mark.Reset(pause)
		}
	}
}

// sociable says that to sit with others saves something: to be told without getting up, or to be left alone by what is not chosen.
func (w *watch) sociable() bool { return w.offer != nil || w.choice.ns != "" || !w.choice.all() }

// catchUp tells the news, and then all that is new; if the watch still sits, it gets up for it.
func (w *watch) catchUp(sits bool, news []Event) error {
	if sits {
		news = w.audience.rise(w)
	}
	if len(news) > 0 {
		if err := w.f(news); err != nil {
			return err
		}
		w.told = news[len(news)-1].Rev
	}
	return w.drain()
}

// served says whether the kind is still there, in the version that is watched, and declared as it was: who watches lists
// again when a definition changes, as objects may look different then.
func served(kinds *resource.Set, kind resource.Kind, spoken schema.GroupVersionKind) bool {
	k, _, ok := kinds.Resource(spoken.GroupVersion().WithResource(kind.Info().Plural))
	if !ok {
		return false
	}
	was, isCustom := kind.(custom)
	is, remains := k.(custom)
	return isCustom == remains && (!isCustom || was.Declaration() == is.Declaration())
}

// nextBookmark is the time to send the next one: in about a minute, but once, the last one, shortly before the end.
func (s *Core) nextBookmark(left time.Duration) (pause time.Duration, last bool) {
	pause = bookmarkEvery - s.upTo(bookmarkEvery/4)
	if end := left - lastBookmark; end > 0 && end < pause {
		return end, true
	}
	return pause, false
}

// drain tells all changes that are there.
func (w *watch) drain() error {
	for {
		changes, err := w.cursor.TryChanges()
		if errors.Is(err, view.ErrExpired) {
			return apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
		}
		if err != nil {
			return StoreError(err, "watch")
		}
		if len(changes) == 0 {
			return nil
		}
		if events := w.events(changes); len(events) > 0 {
			if err := w.f(events); err != nil {
				return err
			}
			w.told = events[len(events)-1].Rev
		}
	}
}

func (w *watch) events(changes []view.Change) []Event {
	var events []Event
	for i := range changes {
		if e, ok := w.event(&changes[i]); ok {
			if events == nil {
				events = make([]Event, 0, len(changes)-i)
			}
			events = append(events, e)
		}
	}
	return events
}

// event says what a change is to the watcher: an object that comes to be chosen is added, one that no longer
// is deleted.
func (w *watch) event(c *view.Change) (Event, bool) {
	is := c.New != nil && w.choice.holds(c.New.Object)
	was := c.Old != nil && w.choice.holds(c.Old.Object)
	switch {
	case is && was:
		return Event{Type: Modified, Entry: c.New, Rev: c.Rev}, true
	case is:
		return Event{Type: Added, Entry: c.New, Rev: c.Rev}, true
	case was:
		return Event{Type: Deleted, Entry: c.Last(), Rev: c.Rev}, true
	}
	return Event{}, false
}

// bookmark tells how far the watch has come.
//
// Unlike Kubernetes, a bookmark that would tell nothing new is not sent, but for the last one of a watch that told something.
func (w *watch) bookmark(last bool) error {
	if !w.bookmarks {
		return nil
	}
	rev := w.cursor.Revision()
	if rev <= w.told && (!last || rev <= w.from) {
		return nil
	}
	w.told = rev
	return w.f([]Event{{Type: Bookmark, Rev: rev}})
}
