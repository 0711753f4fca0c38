package view_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// witness reads a cursor to the end and checks what it promises.
type witness struct {
	name  string
	c     *view.Cursor
	state map[string]*view.Entry // by kind and key
	rev   int64
}

func (w *witness) see(b view.Batch) error {
	for _, x := range b.Changes {
		if x.Rev <= w.rev {
			return fmt.Errorf("%s: revision %d after %d", w.name, x.Rev, w.rev)
		}
		w.rev = x.Rev
		var key string
		if x.New != nil {
			key = x.Kind.Info().Plural + "/" + keyOf(x.New.Object)
		} else {
			key = x.Kind.Info().Plural + "/" + keyOf(x.Old.Object)
		}
		if w.state[key] != x.Old {
			return fmt.Errorf("%s: the change of %s at %d has a gap before it", w.name, key, x.Rev)
		}
		delete(w.state, key)
		if x.New != nil {
			w.state[key] = x.New
		}
	}
	if b.Snapshot.Rev() < w.rev {
		return fmt.Errorf("%s: snapshot at %d, change at %d", w.name, b.Snapshot.Rev(), w.rev)
	}
	return nil
}

// follow reads until the object with this key is there.
func (w *witness) follow(ctx context.Context, until string) error {
	for w.state[until] == nil {
		b, err := w.c.Next(ctx)
		if err != nil {
			return fmt.Errorf("%s at %d: %w", w.name, w.c.Revision(), err)
		}
		if err := w.see(b); err != nil {
			return err
		}
	}
	return nil
}

// TestCursorsUnderLoad lets writers and readers race: every cursor must lead from its start to the end.
func TestCursorsUnderLoad(t *testing.T) {
	const writers, each = 4, 300
	r := start(t, view.Config{})
	ctx := t.Context()
	errs := make(chan error, 1000)
	var reading, writing sync.WaitGroup
	watch := func(name string, s *view.Snapshot, c *view.Cursor, kinds ...resource.Kind) {
		w := &witness{name: name, c: c, state: map[string]*view.Entry{}, rev: s.Rev()}
		for _, k := range kinds {
			for e := range s.Entries(k, "", "") {
				w.state[k.Info().Plural+"/"+keyOf(e.Object)] = e
			}
		}
		until := kinds[len(kinds)-1].Info().Plural + "/end/end"
		reading.Go(func() {
			if err := w.follow(ctx, until); err != nil {
				errs <- err
			}
		})
	}
	s := r.v.Snapshot()
	watch("all", s, r.v.Cursor(s.Rev()), pods, maps)
	watch("pods", s, r.v.Cursor(s.Rev(), pods), pods)
	watch("maps", s, r.v.Cursor(s.Rev(), maps), maps)
	for n := range writers {
		reading.Go(func() {
			for rev := s.Rev(); rev < s.Rev()+writers*each; rev++ {
				r.wait(rev)
			}
		})
		writing.Go(func() {
			for i := range each {
				r.step(fmt.Sprint("w", n), i)
				if i%50 == 0 { // watchers come late
					s := r.v.Snapshot()
					watch("late", s, r.v.Cursor(s.Rev(), pods, maps), pods, maps)
					watch("late at", s, r.v.CursorAt(s), pods, maps)
				}
			}
		})
	}
	writing.Wait()
	r.put(pods, pod("end", "end"))
	r.put(maps, cm("end", "end", "1"))
	reading.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

func (r *rig) step(ns string, i int) {
	name := fmt.Sprint("x", i%7)
	switch i % 5 {
	case 0, 1, 2:
		r.put(pods, pod(ns, name))
	case 3:
		r.put(maps, cm(ns, name, fmt.Sprint(i)))
	case 4:
		r.put(pods, pod(ns, "gone"))
		r.del(pods, ns, "gone")
	}
}

func TestExpiry(t *testing.T) {
	r := start(t, view.Config{Changes: 20})
	first := r.wait(r.put(maps, cm("a", "quiet", "1"))).Rev()
	slow, quiet := r.v.Cursor(first, pods), r.v.Cursor(first, maps)
	mixed := r.v.Cursor(first)
	for i := range 50 {
		r.put(pods, pod("a", fmt.Sprint("p", i)))
	}
	last := r.wait(r.put(pods, pod("a", "last"))).Rev()
	for name, c := range map[string]*view.Cursor{"slow": slow, "mixed": mixed, "too old": r.v.Cursor(first, pods),
		"before all": r.v.Cursor(0, maps)} {
		t.Run(name, func(t *testing.T) {
			if b, err := c.TryNext(); !errors.Is(err, view.ErrExpired) {
				t.Errorf("%s: %d changes, %v; want ErrExpired", name, len(b.Changes), err)
			}
		})
	}
	if b, err := quiet.TryNext(); err != nil || len(b.Changes) != 0 || quiet.Revision() != last {
		t.Errorf("quiet kind: %d changes, %v, at %d", len(b.Changes), err, quiet.Revision())
	}
	if b, err := r.v.Cursor(last-20, pods).TryNext(); err != nil || len(b.Changes) != 20 {
		t.Errorf("what is kept: %d changes, %v", len(b.Changes), err)
	}
	if _, err := r.v.Cursor(last-21, pods).TryNext(); !errors.Is(err, view.ErrExpired) {
		t.Errorf("one more than is kept: %v", err)
	}
}

func TestExpiryByBytes(t *testing.T) {
	r := start(t, view.Config{Bytes: 5000})
	first := r.v.Revision()
	value := string(make([]byte, 1000))
	var last int64
	for range 20 {
		last = r.put(maps, cm("a", "big", value))
	}
	r.wait(last)
	if _, err := r.v.Cursor(first).TryNext(); !errors.Is(err, view.ErrExpired) {
		t.Errorf("got %v", err)
	}
	if b, err := r.v.Cursor(last-4, maps).TryNext(); err != nil || len(b.Changes) != 4 {
		t.Errorf("%d changes, %v", len(b.Changes), err)
	}
}

func TestExpiryByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, view.Config{Age: 3 * time.Minute})
		first := r.v.Revision()
		for range 10 {
			r.wait(r.put(pods, pod("a", "x")))
			time.Sleep(time.Minute)
		}
		last := r.wait(r.put(maps, cm("a", "x", ""))).Rev()
		if n := r.v.Stats().Changes; n < 3 || n > 5 {
			t.Errorf("%d changes are kept", n)
		}
		if _, err := r.v.Cursor(first+1, pods).TryNext(); !errors.Is(err, view.ErrExpired) {
			t.Errorf("an old cursor: %v", err)
		}
		if b, err := r.v.Cursor(last-2, pods).TryNext(); err != nil || len(b.Changes) != 1 {
			t.Errorf("a young cursor: %d changes, %v", len(b.Changes), err)
		}
		time.Sleep(10 * time.Minute)
		if n := r.v.Stats().Changes; n != 0 {
			t.Errorf("%d changes are kept in silence", n)
		}
	})
}

// After a burst what was replaced is let go within a minute, but not what is fresh; a small history stays.
func TestSheds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shed atomic.Int64
		r := start(t, view.Config{Bytes: 1 << 20, Shed: func() { shed.Add(1) }})
		first := r.wait(r.put(maps, cm("a", "x", ""))).Rev()
		for i := range 100 {
			r.wait(r.put(maps, cm("a", "x", strings.Repeat("x", 1000)+fmt.Sprint(i))))
		}
		time.Sleep(30 * time.Second)
		if _, err := r.v.Cursor(first, maps).TryNext(); err != nil {
			t.Errorf("a fresh history: %v", err)
		}
		r.wait(r.put(maps, cm("a", "x", "last")))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if s := r.v.Stats(); s.Replaced > 32<<10 || s.Changes < 10 || shed.Load() != 1 {
			t.Errorf("a minute later: %+v, told %d times", s, shed.Load())
		}
		if _, err := r.v.Cursor(first, maps).TryNext(); !errors.Is(err, view.ErrExpired) {
			t.Errorf("an old cursor: %v", err)
		}
		last := r.v.Revision()
		if b, err := r.v.Cursor(last-5, maps).TryNext(); err != nil || len(b.Changes) != 5 {
			t.Errorf("a young cursor: %d changes, %v", len(b.Changes), err)
		}
		n := r.v.Stats().Changes
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if now := r.v.Stats().Changes; now != n || shed.Load() != 1 {
			t.Errorf("a small history shrank: %d changes, then %d", n, now)
		}
	})
}

// TestBatches reads more than a batch holds, from several kinds.
func TestBatches(t *testing.T) {
	r := start(t, view.Config{})
	all, both := r.v.Cursor(r.v.Revision()), r.v.Cursor(r.v.Revision(), pods, maps)
	const n = 3000
	from := r.v.Revision()
	for i := range n {
		if name := fmt.Sprint("x", i); i%3 == 0 {
			r.put(maps, cm("a", name, ""))
		} else {
			r.put(pods, pod("a", name))
		}
	}
	r.wait(from + n)
	for _, c := range []*view.Cursor{all, both} {
		rev, total := from, 0
		for total < n {
			b, err := c.TryNext()
			if err != nil || len(b.Changes) == 0 {
				t.Fatalf("after %d: %d changes, %v", total, len(b.Changes), err)
			}
			total += len(b.Changes)
			for _, x := range b.Changes {
				if x.Rev != rev+1 {
					t.Fatalf("revision %d after %d", x.Rev, rev)
				}
				rev = x.Rev
			}
			if want := rev; total < n && c.Revision() != want {
				t.Fatalf("cursor at %d, want %d", c.Revision(), want)
			}
		}
	}
}

func TestAheadCursor(t *testing.T) {
	r := start(t, view.Config{})
	now := r.v.Revision()
	c := r.v.Cursor(now+2, pods)
	for i := range 4 {
		r.put(pods, pod("a", fmt.Sprint("p", i)))
	}
	r.wait(now + 4)
	if b, err := c.TryNext(); err != nil || len(b.Changes) != 2 || b.Changes[0].Rev != now+3 {
		t.Errorf("got %v, %v", b.Changes, err)
	}
}

// TestChanged waits for one of several kinds beside other things, and is not woken for other kinds.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, view.Config{})
		for name, kinds := range map[string][]resource.Kind{"one": {pods}, "two": {pods, nodes}} {
			c := r.v.Cursor(r.v.Revision(), kinds...)
			ch := c.Changed()
			r.wait(r.put(maps, cm("a", name, "1")))
			select {
			case <-ch:
				t.Errorf("%s: woken by another kind", name)
			default:
			}
			r.wait(r.put(pods, pod("a", name)))
			<-ch
			<-c.Changed() // there is still something to read
			if b, err := c.TryNext(); err != nil || len(b.Changes) != 1 {
				t.Errorf("%s: %d changes, %v", name, len(b.Changes), err)
			}
			select {
			case <-c.Changed():
				t.Errorf("%s: nothing changed", name)
			default:
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := r.v.Cursor(r.v.Revision(), pods, nodes)
		ended := make(chan error)
		go func() { _, err := c.Next(ctx); ended <- err }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
