package view_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
)

// faulty is a store whose watch ends with an error when told to, and whose lists wait until it works again.
type faulty struct {
	store.Store
	broken atomic.Pointer[error]
	cut    chan struct{}
	works  chan struct{}
}

func (f *faulty) List(ctx context.Context, prefix, after string, limit int, rev int64) (store.Page, error) {
	if f.broken.Load() != nil {
		<-f.works
	}
	return f.Store.List(ctx, prefix, after, 2, rev) // small pages
}

func (f *faulty) Watch(ctx context.Context, prefix string, after int64, fn func(store.Batch) error) error {
	if err := f.broken.Load(); err != nil {
		<-f.works
		return *err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-f.cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := f.Store.Watch(ctx, prefix, after, fn)
	if broken := f.broken.Load(); broken != nil {
		return *broken
	}
	return err
}

// fail cuts the watch, once there is one: a feed that is up lists no more, but may not yet watch.
func (f *faulty) fail(err error) {
	synctest.Wait()
	f.works = make(chan struct{})
	f.broken.Store(&err)
	f.cut <- struct{}{}
	synctest.Wait()
}

func (f *faulty) heal() {
	f.broken.Store(nil)
	close(f.works)
}

// TestRelist loses the watch: readers see the state, cursors the difference, each for all it is worth.
func TestRelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(), cut: make(chan struct{})}
		r := &rig{t: t, st: f, v: view.New(resource.NewSet(pods, maps))}
		r.put(pods, pod("a", "same"))
		r.put(pods, pod("a", "changed"))
		r.put(pods, pod("a", "gone"))
		r.put(pods, pod("a", "again"))
		r.follow()
		start := r.v.Revision()
		c := r.v.Cursor(start, pods)
		same := r.v.Snapshot().Entry(pods, "a", "same")
		f.fail(store.ErrCompacted)
		missed := r.put(pods, pod("a", "changed"))
		r.put(pods, pod("a", "flash"))
		r.del(pods, "a", "flash")
		r.del(pods, "a", "gone")
		r.put(pods, pod("a", "new"))
		last := r.put(pods, pod("a", "again", func(p *corev1.Pod) { p.UID = types.UID("other") }))
		f.heal()
		s := r.wait(last)
		if s.Entry(pods, "a", "same") != same || s.Count(pods, "") != 4 {
			t.Errorf("%d pods", s.Count(pods, ""))
		}
		var got []string
		b, err := c.TryNext()
		for _, x := range b.Changes {
			if x.New != nil {
				got = append(got, fmt.Sprint(x.New.Object.GetName(), x.Old == nil))
			} else {
				got = append(got, "-"+x.Old.Object.GetName())
			}
		}
		if want := "changedfalse newtrue -again againtrue -gone"; strings.Join(got, " ") != want || err != nil {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
		if _, err := r.v.Cursor(missed, pods).TryNext(); !errors.Is(err, view.ErrExpired) {
			t.Errorf("a cursor into the gap: %v", err)
		}
		if b, err := r.v.Cursor(last, pods).TryNext(); err != nil || len(b.Changes) != 0 {
			t.Errorf("a cursor after the list: %v, %v", b.Changes, err)
		}
		r.wait(r.put(pods, pod("a", "later")))
		if b, err := c.TryNext(); err != nil || len(b.Changes) != 1 {
			t.Errorf("the cursor goes on: %v, %v", b.Changes, err)
		}
	})
}

// TestOutage loses the store for a while; nothing is missed.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(), cut: make(chan struct{})}
		r := &rig{t: t, st: f, v: view.New(resource.NewSet(pods))}
		r.follow()
		c := r.v.Cursor(r.v.Revision(), pods)
		f.fail(errors.New("connection refused"))
		r.put(pods, pod("a", "x"))
		rev := r.del(pods, "a", "x")
		time.Sleep(time.Minute)
		f.heal()
		r.wait(rev)
		if b, err := c.TryNext(); err != nil || len(b.Changes) != 2 {
			t.Errorf("%d changes, %v", len(b.Changes), err)
		}
	})
}

func TestBroken(t *testing.T) {
	r := start(t, view.Config{})
	c := r.v.Cursor(r.v.Revision(), pods)
	r.put(pods, pod("a", "x"))
	for _, value := range []string{"k8s\x00\xff\xff", "k8s\x00", "{", "", "null", `{"apiVersion":"v9","kind":"Pod"}`, "\x00\x01"} {
		s := r.wait(r.write("/registry/pods/a/x", []byte(value)))
		if s.Lookup(pods, "a", "x") != nil {
			t.Errorf("%q decodes", value)
		}
		if list := r.v.Broken(); len(list) != 1 || list[0].Key != "/registry/pods/a/x" || list[0].Err == nil || list[0].Rev != s.Rev() {
			t.Errorf("%q: broken %v", value, list)
		}
	}
	r.wait(r.put(pods, pod("a", "x")))
	r.write("/registry/pods/a/", []byte("a key of no object"))
	r.write("/registry/pods/a", []byte("another"))
	r.wait(r.write("/registry/", []byte("another")))
	if list := r.v.Broken(); len(list) != 0 {
		t.Errorf("broken %v", list)
	}
	b, _ := c.TryNext()
	if len(b.Changes) != 3 || b.Changes[1].New != nil || b.Changes[2].Old != nil {
		t.Errorf("told %v", b.Changes)
	}
}

// A trap is a kind at one of whose objects the reader panics.
type trap struct{ resource.Kind }

// Pack implements view.Packer.
func (trap) Pack(obj resource.Object, _ []byte, _ int64) resource.Object {
	if obj.GetName() == "trap" {
		panic("an object of this name")
	}
	return obj
}

// TestTrap: a value at which a decoder panics is missing, and told of, and the others are there: the process goes on, and starts anew.
func TestTrap(t *testing.T) {
	first := start(t, view.Config{}, trap{pods})
	first.put(pods, pod("a", "trap"))
	rev := first.put(pods, pod("a", "other"))
	for _, name := range []string{"as it comes", "at a start"} {
		t.Run(name, func(t *testing.T) {
			r := first
			if name == "at a start" {
				r = &rig{t: t, st: first.st, v: view.New(resource.NewSet(trap{pods}))}
				r.follow()
			}
			s := r.wait(rev)
			if s.Lookup(pods, "a", "trap") != nil || s.Lookup(pods, "a", "other") == nil {
				t.Error("it can be read, or the one beside it can't")
			}
			if list := r.v.Broken(); len(list) != 1 || !strings.Contains(list[0].Err.Error(), "an object of this name") {
				t.Errorf("broken %v", list)
			}
		})
	}
}

func TestAdopt(t *testing.T) {
	r := start(t, view.Config{}, maps)
	s := r.v.Snapshot()
	all, one := r.v.CursorAt(s), r.v.CursorAt(s, pods)
	r.put(pods, pod("a", "x"))
	r.put(pods, pod("a", "y"))
	old := r.put(pods, pod("a", "y"))
	r.write("/registry/pods/a/bad", []byte("{"))
	now := r.wait(r.put(maps, cm("a", "m", "")))
	if now.Count(pods, "") != 0 || len(r.v.Broken()) != 0 {
		t.Error("the kind is known before it is adopted")
	}
	if err := r.v.Adopt(pods); err != nil {
		t.Fatal(err)
	}
	s = r.v.Snapshot()
	if e := s.Entry(pods, "a", "y"); e == nil || e.Rev != old || s.Count(pods, "") != 2 || now.Count(pods, "") != 0 {
		t.Errorf("adopted %v", e)
	}
	if len(r.v.Broken()) != 1 {
		t.Errorf("broken: %v", r.v.Broken())
	}
	for name, c := range map[string]*view.Cursor{"one": one, "all": all} {
		t.Run(name, func(t *testing.T) {
			told := 0
			for {
				b, err := c.TryNext()
				if err != nil {
					t.Fatal(err)
				}
				if len(b.Changes) == 0 {
					break
				}
				for _, x := range b.Changes {
					if x.Kind == resource.Kind(pods) && x.Old == nil && x.Rev == now.Rev() {
						told++
					}
				}
			}
			if told != 2 {
				t.Errorf("%s: told of %d", name, told)
			}
		})
	}
	if _, err := r.v.Cursor(old, pods).TryNext(); !errors.Is(err, view.ErrExpired) {
		t.Errorf("a cursor from before: %v", err)
	}
	testRedeclare(t, r, one)
	testReread(t, r)
	testDrop(t, r, one)
}

// testRedeclare adopts another declaration of a known kind: its fields are indexed, nobody is told.
func testRedeclare(t *testing.T, r *rig, c *view.Cursor) {
	more := &resource.Def[*corev1.Pod]{GVK: pods.GVK, Plural: "pods", Namespaced: true,
		Select: []resource.Field[*corev1.Pod]{{Label: "x", Index: true, Value: func(*corev1.Pod) string { return "x" }}}}
	before := r.v.Snapshot()
	if err := r.v.Adopt(more); err != nil {
		t.Fatal(err)
	}
	n := 0
	for range r.v.Snapshot().ByField(more, "x", "x") {
		n++
	}
	e := r.v.Snapshot().Entry(pods, "a", "x")
	if n != 2 || e.Kind != resource.Kind(more) || e.Object != before.Lookup(pods, "a", "x") {
		t.Errorf("redeclared: %d found, %v", n, e)
	}
	if b, err := c.TryNext(); err != nil || len(b.Changes) != 0 {
		t.Errorf("redeclared: told %v, %v", b.Changes, err)
	}
}

// A rereader counts the objects that it reads anew.
type rereader struct {
	resource.Kind
	as   resource.Kind
	read int
}

func (r *rereader) ReadsAs(before resource.Kind) bool { return before == r.as }

func (r *rereader) Recast(obj resource.Object) resource.Object {
	r.read++
	return obj
}

// testReread adopts declarations that read objects as the one before, and in another way.
func testReread(t *testing.T, r *rig) {
	first := &rereader{Kind: pods}
	same := &rereader{Kind: pods, as: first}
	for _, k := range []resource.Kind{first, same} {
		if err := r.v.Adopt(k); err != nil {
			t.Fatal(err)
		}
	}
	if first.read != 2 || same.read != 0 {
		t.Errorf("%d objects were read anew by a declaration unlike the one before, and %d by one that reads as that", first.read, same.read)
	}
	if err := r.v.Adopt(pods); err != nil {
		t.Fatal(err)
	}
}

func testDrop(t *testing.T, r *rig, c *view.Cursor) {
	if err := r.v.Drop(pods.Info().GR()); err != nil {
		t.Fatal(err)
	}
	b, err := c.TryNext()
	if err != nil || len(b.Changes) != 2 || b.Changes[0].New != nil || b.Snapshot.Count(pods, "") != 0 {
		t.Errorf("dropped: %v, %v", b.Changes, err)
	}
	r.wait(r.del(pods, "a", "x"))
	if err := r.v.Adopt(pods); err != nil {
		t.Fatal(err)
	}
	if b, err := c.TryNext(); err != nil || len(b.Changes) != 1 || b.Changes[0].New.Object.GetName() != "y" {
		t.Errorf("adopted again: %v, %v", b.Changes, err)
	}
}

func TestFedByKind(t *testing.T) {
	v := view.New(resource.NewSet(pods, maps))
	numbered := func(o resource.Object, rev int64) resource.Object {
		o.SetResourceVersion(fmt.Sprint(rev))
		return o
	}
	v.Replace(pods, 10, []resource.Object{numbered(pod("a", "x"), 7), numbered(pod("a", "y"), 9)})
	v.Replace(maps, 20, nil)
	s := v.Snapshot()
	if s.Revision(pods) != 10 || s.Revision(maps) != 20 || s.Revision(nodes) != 0 || s.Entry(pods, "a", "x").Rev != 7 {
		t.Errorf("at %d and %d", s.Revision(pods), s.Revision(maps))
	}
	c, both := v.CursorAt(s, pods), v.CursorAt(s, maps, pods)
	v.Update(pods, 12, numbered(pod("a", "x"), 12), false)
	v.Update(pods, 11, numbered(pod("a", "x"), 11), false) // late
	v.Update(pods, 11, numbered(pod("a", "w"), 11), false) // and gone since
	v.Update(maps, 21, numbered(cm("a", "m", ""), 21), false)
	v.Update(pods, 13, numbered(pod("a", "y"), 13), true)
	v.Advance(pods, 15)
	if b, err := c.TryNext(); err != nil || len(b.Changes) != 2 || c.Revision() != 15 || b.Snapshot.Revision(pods) != 15 {
		t.Errorf("told %v, %v, at %d", b.Changes, err, c.Revision())
	}
	if b, err := both.TryNext(); err != nil || len(b.Changes) != 3 || b.Changes[1].Kind != resource.Kind(maps) {
		t.Errorf("told %v, %v", b.Changes, err)
	}
	v.Replace(pods, 30, []resource.Object{numbered(pod("a", "x"), 12), numbered(pod("a", "z"), 28)})
	if b, err := c.TryNext(); err != nil || len(b.Changes) != 1 || b.Changes[0].New.Rev != 28 {
		t.Errorf("told %v, %v", b.Changes, err)
	}
	if s, err := v.WaitFor(t.Context(), pods, 30); err != nil || s.Revision(pods) != 30 || s.Revision(maps) != 21 {
		t.Errorf("waited for %v, %v", s, err)
	}
	v.Replace(pods, 5, nil) // another cluster, or an old backup
	if _, err := c.TryNext(); !errors.Is(err, view.ErrExpired) || v.Snapshot().Revision(pods) != 5 {
		t.Errorf("back in time: %v", err)
	}
}

// TestOneWrite: what one write changed is told at once, however much it is.
func TestOneWrite(t *testing.T) {
	v := view.New(resource.NewSet(pods, maps))
	one, both := v.CursorAt(v.Snapshot(), pods), v.CursorAt(v.Snapshot(), pods, maps)
	for i := range 5 {
		v.Update(maps, int64(i+1), cm("a", fmt.Sprint("m", i), ""), false)
	}
	var list []resource.Object
	for i := range 3000 {
		list = append(list, pod("a", fmt.Sprint("p", i)))
	}
	v.Replace(pods, 9, list)
	if b, err := one.TryNext(); err != nil || len(b.Changes) != 3000 {
		t.Errorf("one kind: %d changes, %v", len(b.Changes), err)
	}
	if b, err := both.TryNext(); err != nil || len(b.Changes) != 3005 {
		t.Errorf("both kinds: %d changes, %v", len(b.Changes), err)
	}
}

// TestTwice delivers everything twice.
func TestTwice(t *testing.T) {
	v, f := startFeed(t)
	c := v.Cursor(v.Revision())
	value, err := codec.Stored(pods, pod("a", "x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, rev := range []int64{2, 3, 2, 3, 4} {
		f.send(rev, "/registry/pods/a/x", value)
	}
	if s, err := v.Wait(t.Context(), 4); err != nil || s.Rev() != 4 || s.Entry(pods, "a", "x").Rev != 4 {
		t.Errorf("got %v, %v", s, err)
	}
	if b, err := c.TryNext(); err != nil || len(b.Changes) != 3 {
		t.Errorf("told %v, %v", b.Changes, err)
	}
}

func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := view.New(resource.NewSet(pods, maps))
		done := make(chan int64)
		go func() {
			s, err := v.WaitFor(t.Context(), pods, 5)
			if err != nil {
				t.Error(err)
			}
			done <- s.Revision(pods)
		}()
		synctest.Wait()
		v.Advance(maps, 9)
		v.Advance(pods, 4)
		synctest.Wait()
		select {
		case <-done:
			t.Error("returned too early")
		default:
		}
		v.Advance(pods, 6)
		if rev := <-done; rev != 6 {
			t.Errorf("at %d", rev)
		}
	})
}

func TestRetain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, view.Config{})
		s := r.wait(r.put(pods, pod("a", "x")))
		lost := r.wait(r.put(pods, pod("a", "y")))
		r.v.Retain(s)
		r.wait(r.del(pods, "a", "x"))
		if got, err := r.v.SnapshotAt(s.Rev()); err != nil || got != s {
			t.Errorf("retained: %v", err)
		}
		if got, err := r.v.SnapshotAt(r.v.Revision()); err != nil || got != r.v.Snapshot() {
			t.Errorf("newest: %v", err)
		}
		if _, err := r.v.SnapshotAt(lost.Rev()); !errors.Is(err, view.ErrExpired) {
			t.Errorf("not retained: %v", err)
		}
		time.Sleep(4 * time.Minute)
		r.v.Retain(s) // the next page
		time.Sleep(4 * time.Minute)
		if _, err := r.v.SnapshotAt(s.Rev()); err != nil {
			t.Errorf("retained again: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := r.v.SnapshotAt(s.Rev()); !errors.Is(err, view.ErrExpired) {
			t.Errorf("after six minutes: %v", err)
		}
		for range 100 {
			r.v.Retain(r.wait(r.put(pods, pod("a", "y"))))
		}
		if n := r.v.Stats().Retained; n != 32 {
			t.Errorf("%d retained", n)
		}
	})
}

func TestTakesOverAStore(t *testing.T) {
	st := memory.New()
	r := &rig{t: t, st: st, v: view.New(resource.NewSet(pods))}
	for i := range 2500 { // several pages
		r.put(pods, pod("a", fmt.Sprint("p", i)))
	}
	value, err := codec.Stored(maps, cm("a", "m", "")) // of no known kind
	if err != nil {
		t.Fatal(err)
	}
	rev := r.write("/registry/configmaps/a/m", value)
	r.follow()
	if s := r.v.Snapshot(); s.Count(pods, "") != 2500 || s.Rev() != rev {
		t.Errorf("%d pods at %d", s.Count(pods, ""), s.Rev())
	}
	if _, err := r.v.Cursor(rev-1, pods).TryNext(); !errors.Is(err, view.ErrExpired) {
		t.Errorf("what was before the list: %v", err)
	}
	if s := r.v.Snapshot(); s != r.v.Snapshot() {
		t.Error("a snapshot of nothing new was made")
	}
}

// TestNoIndex: asking for a field that no index answers is a mistake, not an answer.
func TestNoIndex(t *testing.T) {
	snap := view.New(resource.NewSet(pods)).Snapshot()
	for name, ask := range map[string]func(){
		"objects": func() { snap.ByField(pods, "status.phases", "Running") },
		"entries": func() { snap.EntriesByField(pods, "status.phases", "Running") },
	} {
		t.Run(name, func(t *testing.T) {
			func() {
				defer func() {
					if text, _ := recover().(string); !strings.Contains(text, "status.phases") {
						t.Errorf("%s: it says %q", name, text)
					}
				}()
				ask()
			}()
		})
	}
}
