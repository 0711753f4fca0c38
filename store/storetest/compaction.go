package storetest

import (
	"context"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/store"
)

var compactions = map[string]func(*probe){
	"CompactKeepsTheRest": func(p *probe) {
		a := p.create("/a", "1")
		b := p.create("/b", "1")
		gone := p.delete("/b", b)
		c := p.create("/c", "1")
		a2 := p.update("/a", "2", a)
		want := p.list("/", "", 0, c)
		all := describe(p.watch("/", c).until(a2))
		p.compact(c)
		for _, rev := range []int64{a, b, gone} {
			_, err := p.List(p.ctx, "/", "", 0, rev)
			p.is("list before the compaction", err, store.ErrCompacted)
		}
		if page := p.list("/", "", 0, c); !slices.EqualFunc(page.KVs, want.KVs, same) {
			p.Errorf("at %d: %v, want %v", c, page.KVs, want.KVs)
		}
		if page := p.list("/", "", 0, 0); !slices.Equal(keys(page), []string{"/a", "/c"}) {
			p.Errorf("now: %v", page.KVs)
		}
		if got := describe(p.watch("/", c).until(a2)); got != all {
			p.Errorf("watch from %d:\n%swant\n%s", c, got, all)
		}
	},
	"CompactedWatch": func(p *probe) {
		a := p.create("/a", "1")
		b := p.update("/a", "2", a)
		c := p.update("/a", "3", b)
		p.compact(c)
		p.is("watch", p.watch("/a", 0).end(), store.ErrCompacted)
		p.is("watch", p.watch("/a", a).end(), store.ErrCompacted)
		if got := p.watch("/a", c).until(p.update("/a", "4", c)); len(got) != 1 {
			p.Errorf("got %s", describe(got))
		}
	},
	"CompactFuture": func(p *probe) {
		p.create("/a", "1")
		p.is("compact", p.Compact(p.ctx, p.revision()+1), store.ErrFuture)
	},
	// What is forgotten already is forgotten: asking again is no error.
	"CompactAgain": func(p *probe) {
		a := p.create("/a", "1")
		b := p.update("/a", "2", a)
		p.compact(b)
		p.compact(b)
		p.compact(a)
		p.update("/a", "3", b)
	},
	"CompactRunningWatch": func(p *probe) {
		r := p.watch("/a", 0)
		rev := p.create("/a", "1")
		for range 50 {
			rev = p.update("/a", "x", rev)
			r.until(rev)
			p.compact(rev)
		}
		if got := r.until(rev); len(got) != 51 {
			p.Errorf("%d events, want 51", len(got))
		}
	},
	"CompactAll": func(p *probe) {
		rev := p.create("/a", "1")
		p.compact(p.delete("/a", rev))
		if kv := p.get("/a"); kv != nil {
			p.Errorf("got %v", kv)
		}
		if page := p.list("/", "", 0, 0); len(page.KVs) != 0 {
			p.Errorf("got %v", page.KVs)
		}
		p.create("/a", "2")
	},
}

// endings are about contexts and Close.
var endings = map[string]func(*probe){
	"CancelledContext": func(p *probe) {
		before := p.revision()
		ctx, cancel := context.WithCancel(p.ctx)
		cancel()
		for name, call := range p.calls(ctx) {
			p.is(name, call(), context.Canceled)
		}
		p.is("watch", p.Watch(ctx, "/a", 0, func(store.Batch) error { return nil }), nil)
		if p.get("/a") != nil || p.revision() != before {
			p.Error("a write with a context that had ended was done")
		}
	},
	"Deadline": func(p *probe) {
		ctx, cancel := context.WithTimeout(p.ctx, 1)
		defer cancel()
		<-ctx.Done()
		for name, call := range p.calls(ctx) {
			p.is(name, call(), context.DeadlineExceeded)
		}
	},
	"Closed": func(p *probe) {
		rev := p.create("/a", "1")
		r := p.watch("/a", 0)
		r.until(rev)
		if err := p.Close(); err != nil {
			p.Fatal(err)
		}
		p.is("running watch", r.end(), store.ErrClosed)
		for name, call := range p.calls(p.ctx) {
			p.is(name, call(), store.ErrClosed)
		}
		p.is("watch", p.watch("/a", 0).end(), store.ErrClosed)
		p.is("close", p.Close(), store.ErrClosed)
	},
	// A write in flight ends before the store does: it is done, or refused because the store is closed.
	"CloseUnderLoad": func(p *probe) {
		const writers = 8
		started, ended := make(chan struct{}, writers), make(chan error, writers)
		for i := range writers {
			go func() {
				key, rev := "/"+strings.Repeat("w", i+1), int64(0)
				for n := 0; ; n++ {
					next, err := p.Write(p.ctx, store.Write{Key: key, Value: []byte("1"), Expect: rev})
					if err != nil {
						ended <- err
						return
					}
					if rev = next; n == 5 {
						started <- struct{}{}
					}
				}
			}()
		}
		for range writers {
			<-started
		}
		if err := p.Close(); err != nil {
			p.Error(err)
		}
		for range writers {
			p.is("write", <-ended, store.ErrClosed)
		}
	},
}

// calls are all the methods that answer at once.
func (p *probe) calls(ctx context.Context) map[string]func() error {
	return map[string]func() error{
		"write":    func() error { _, err := p.Write(ctx, store.Write{Key: "/a", Value: []byte("1")}); return err },
		"get":      func() error { _, _, err := p.Get(ctx, "/a"); return err },
		"list":     func() error { _, err := p.List(ctx, "/a", "", 0, 0); return err },
		"revision": func() error { _, err := p.Revision(ctx); return err },
		"compact":  func() error { return p.Compact(ctx, 1) },
	}
}
