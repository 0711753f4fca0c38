package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/kloop-dev/kloop/store"
)

// A recording is a watch on its own goroutine, which checks what every watch must keep to.
type recording struct {
	p      *probe
	prefix string
	cancel context.CancelFunc
	ended  chan error

	mu     sync.Mutex
	moved  chan struct{} // closed and replaced by every batch
	rev    int64
	events []store.Event
}

func (p *probe) watch(prefix string, after int64) *recording {
	ctx, cancel := context.WithCancel(p.ctx)
	r := &recording{p: p, prefix: prefix, cancel: cancel, ended: make(chan error, 1), moved: make(chan struct{}), rev: after}
	p.Cleanup(cancel)
	go func() { r.ended <- p.Watch(ctx, prefix, after, r.take) }()
	return r
}

// take records a batch. Revisions only grow, and none is split between batches.
func (r *recording) take(b store.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.Rev <= r.rev {
		r.p.Errorf("watch %s: batch up to %d after one up to %d", r.prefix, b.Rev, r.rev)
	}
	last := r.rev
	for _, e := range b.Events {
		switch {
		case e.Rev <= r.rev || e.Rev < last || e.Rev > b.Rev:
			r.p.Errorf("watch %s: event of %d after %d in a batch of %d to %d", r.prefix, e.Rev, last, r.rev, b.Rev)
		case !strings.HasPrefix(e.Key, r.prefix):
			r.p.Errorf("watch %s: event of %s", r.prefix, e.Key)
		case e.KV != nil && (e.KV.ModRev != e.Rev || e.KV.Key != e.Key):
			r.p.Errorf("watch %s: event of %s at %d holds %v", r.prefix, e.Key, e.Rev, e.KV)
		case e.Prev != nil && (e.Prev.ModRev >= e.Rev || e.Prev.Key != e.Key):
			r.p.Errorf("watch %s: event of %s at %d comes after %v", r.prefix, e.Key, e.Rev, e.Prev)
		}
		last = e.Rev
	}
	r.rev = b.Rev
	r.events = append(r.events, b.Events...)
	close(r.moved)
	r.moved = make(chan struct{})
	return nil
}

// until waits for the watch to be complete up to a revision, and returns its events.
func (r *recording) until(rev int64) []store.Event {
	r.p.Helper()
	for {
		r.mu.Lock()
		events, at, moved := r.events, r.rev, r.moved
		r.mu.Unlock()
		if at >= rev {
			return events
		}
		select {
		case <-moved:
		case err := <-r.ended:
			r.p.Fatalf("watch %s ended at %d, before %d: %v", r.prefix, at, rev, err)
		case <-r.p.ctx.Done():
			r.p.Fatalf("watch %s stands at %d, wanted %d", r.prefix, at, rev)
		}
	}
}

// end waits for the watch to end by itself.
func (r *recording) end() error {
	r.p.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-r.p.ctx.Done():
		r.p.Fatalf("watch %s does not end", r.prefix)
		return nil
	}
}

// describe renders events for comparison.
func describe(events []store.Event) string {
	var b strings.Builder
	for _, e := range events {
		if e.KV == nil {
			fmt.Fprintf(&b, "%d -%s\n", e.Rev, e.Key)
		} else {
			fmt.Fprintf(&b, "%d %s=%s made %d\n", e.Rev, e.Key, e.KV.Value, e.KV.CreateRev)
		}
	}
	return b.String()
}

var watches = map[string]func(*probe){
	"WatchFromRevision": func(p *probe) {
		start := p.revision()
		live := p.watch("/a/", start)
		one := p.create("/a/1", "x")
		p.create("/b/1", "other")
		two := p.update("/a/1", "y", one)
		three := p.delete("/a/1", two)
		four := p.create("/a/1", "z")
		want := fmt.Sprintf("%d /a/1=x made %d\n%d /a/1=y made %d\n%d -/a/1\n%d /a/1=z made %d\n", one, one, two, one, three, four, four)
		for name, r := range map[string]*recording{"live": live, "start": p.watch("/a/", start), "zero": p.watch("/a/", 0)} {
			if got := describe(r.until(four)); got != want {
				p.Errorf("%s watch:\n%swant:\n%s", name, got, want)
			}
		}
		if got, want := describe(p.watch("/a/", one).until(four)), want[strings.Index(want, "\n")+1:]; got != want {
			p.Errorf("watch from %d:\n%swant:\n%s", one, got, want)
		}
	},
	"WatchPrev": func(p *probe) {
		r := p.watch("/a", 0)
		one := p.create("/a", "x")
		two := p.update("/a", "y", one)
		before := []*store.KV{nil, {Key: "/a", Value: []byte("x"), CreateRev: one, ModRev: one},
			{Key: "/a", Value: []byte("y"), CreateRev: one, ModRev: two}}
		for i, e := range r.until(p.delete("/a", two)) {
			if e.Prev != nil && !equal(e.Prev, before[i]) {
				p.Errorf("event %d has %v before it, want %v or nothing", i, e.Prev, before[i])
			}
		}
	},
	"WatchEverything": func(p *probe) {
		r := p.watch("", 0)
		p.create("a", "1")
		p.create("\xff", "2")
		if got := r.until(p.create("/", "3")); len(got) != 3 {
			p.Errorf("got %s", describe(got))
		}
	},
	"WatchFutureRevision": func(p *probe) {
		r := p.watch("/a", p.revision()+2)
		p.create("/a1", "before")
		p.create("/a2", "at")
		last := p.create("/a3", "after")
		if got := r.until(last); len(got) != 1 || got[0].Key != "/a3" {
			p.Errorf("got %s", describe(got))
		}
	},
	"WatchEndsWithContext": func(p *probe) {
		r := p.watch("/a", 0)
		r.until(p.create("/a", "1"))
		r.cancel()
		p.is("watch", r.end(), nil)
	},
	"WatchEndsWithFunction": func(p *probe) {
		broken, calls := errors.New("broken"), 0
		p.create("/a1", "1")
		err := p.Watch(p.ctx, "/a", 0, func(store.Batch) error { calls++; return broken })
		p.is("watch", err, broken)
		p.create("/a2", "2")
		if calls != 1 {
			p.Errorf("called %d times", calls)
		}
	},
	"SlowWatchDelaysOnlyItself": func(p *probe) {
		started, release := make(chan struct{}), make(chan struct{})
		slow, fast := &recording{p: p, prefix: "/a", moved: make(chan struct{})}, p.watch("/a", 0)
		slow.ended = make(chan error, 1)
		go func() {
			var once sync.Once
			slow.ended <- p.Watch(p.ctx, "/a", 0, func(b store.Batch) error {
				once.Do(func() { close(started) })
				<-release
				return slow.take(b)
			})
		}()
		last := p.create("/a0", "1")
		<-started
		for i := range 300 {
			last = p.create(fmt.Sprint("/a0", i), "1")
		}
		want := describe(fast.until(last))
		close(release)
		if got := describe(slow.until(last)); got != want {
			p.Errorf("slow watch saw\n%swant\n%s", got, want)
		}
	},
	// A watch of keys that don't change still learns that the revision moves.
	"QuietWatchMoves": func(p *probe) {
		r := p.watch("/quiet/", p.revision())
		if events := r.until(p.create("/busy/1", "1")); len(events) != 0 {
			p.Errorf("got %s", describe(events))
		}
		r.until(p.create("/busy/2", "1"))
		if got := r.until(p.create("/quiet/1", "1")); len(got) != 1 {
			p.Errorf("got %s", describe(got))
		}
	},
}
