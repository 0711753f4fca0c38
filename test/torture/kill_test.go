package torture

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

var kills = flag.Int("kills", 5, "how often the server is killed")

const (
	writers = 8
	space   = "default"
	least   = 50 // events that the watch tells of before the server may be killed
)

// A writer changes one object, over and over. It knows what was acknowledged, and what may have been done since.
type writer struct {
	name  string
	n     int    // of the last try
	acked int    // number in the object as acknowledged; 0: it is not there
	rev   string // that goes with it
	maybe []int  // tries since whose end is unknown
	all   map[string]int

	off *atomic.Bool // the power is being cut: an answer may come from a machine that is no longer there
}

// run writes until the server is gone.
func (w *writer) run(ctx context.Context, c *kubernetes.Clientset, r *rand.Rand) {
	maps := c.CoreV1().ConfigMaps(space)
	for ctx.Err() == nil {
		w.n++
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: w.name, ResourceVersion: w.rev},
			Data: map[string]string{"n": strconv.Itoa(w.n)}}
		var err error
		switch {
		case w.acked == 0:
			cm, err = maps.Create(ctx, cm, metav1.CreateOptions{})
		case r.IntN(20) == 0:
			err = maps.Delete(ctx, w.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &w.rev}})
			if err == nil && !w.off.Load() {
				w.acked, w.rev = 0, ""
				continue
			}
			w.n = -w.n // a deletion
		default:
			cm, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
		}
		if err != nil || w.off.Load() {
			w.maybe = append(w.maybe, w.n)
			w.n = max(w.n, -w.n)
			return
		}
		w.acked, w.rev = w.n, cm.ResourceVersion
		w.all[cm.ResourceVersion] = w.n
	}
}

// check compares what is there with what it must be, and goes on from there.
func (w *writer) check(ctx context.Context, c *kubernetes.Clientset) error {
	cm, err := c.CoreV1().ConfigMaps(space).Get(ctx, w.name, metav1.GetOptions{})
	n := 0
	switch {
	case err == nil:
		if n, err = strconv.Atoi(cm.Data["n"]); err != nil {
			return err
		}
	case !apierrors.IsNotFound(err):
		return err
	default:
		cm = &corev1.ConfigMap{}
	}
	ok := n == w.acked
	for _, m := range w.maybe {
		ok = ok || n == max(m, 0)
	}
	if !ok {
		return fmt.Errorf("%s: %d was acknowledged, %v may have been done after it, %d is there", w.name, w.acked, w.maybe, n)
	}
	if n != w.acked && n != 0 {
		w.all[cm.ResourceVersion] = n
	}
	w.acked, w.rev, w.maybe = n, cm.ResourceVersion, nil
	return nil
}

// A server that is killed at any moment under load loses nothing that it acknowledged. What a watch tells is in order
// and complete, from where it stood or from where the server says that it must begin anew.
func TestKill(t *testing.T) {
	v := newVictim(t, t.TempDir())
	torment(t, v, *kills, v.kill)
}

// torment ends the server so many times under load, starts it again, and looks for what it had acknowledged.
func torment(t *testing.T, v *victim, times int, end func()) {
	t.Helper()
	v.start()
	random := rand.New(rand.NewPCG(*seed, 0))
	log := &record{off: &v.off}
	var all []*writer
	for i := range writers {
		all = append(all, &writer{name: fmt.Sprint("w", i), all: map[string]int{}, off: &v.off})
	}
	for range times {
		c := v.client()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		var writing, watching sync.WaitGroup
		told, ended := make(chan struct{}), make(chan struct{})
		watching.Go(func() { log.follow(ctx, c, told) })
		for _, w := range all {
			r := rand.New(rand.NewPCG(random.Uint64(), 1))
			writing.Go(func() { w.run(ctx, c, r) })
		}
		go func() { writing.Wait(); close(ended) }()
		select {
		case <-told:
		case <-ended: // by itself: a machine that stood still
		}
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) // the load goes on; when it ends is the point
		end()
		<-ended
		watching.Wait()
		cancel()
		v.start()
		c = v.client()
		for _, w := range all {
			if err := w.check(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	log.compare(t, v.client(), all)
	t.Logf("the server ended %d times", times)
}

// A record is what watches told, as an informer would have it: lists, and what follows on each.
type record struct {
	lives []*life
	off   *atomic.Bool // as of a writer
}

// A life begins with a list.
type life struct {
	off    *atomic.Bool
	there  map[string]bool
	from   int64
	rev    string
	events []event
}

type event struct {
	rev  int64
	name string
	n    int
	typ  watch.EventType
}

// follow watches until the server is gone. It closes told when the watch has told something.
func (l *record) follow(ctx context.Context, c *kubernetes.Clientset, told chan<- struct{}) {
	asked := 0 // by a watch that begins, of which there may be two, and before each event
	l.until(ctx, c, func(int64) bool {
		if asked++; asked == least+3 {
			close(told)
		}
		return false
	})
}

// until goes on where the record stands, or begins anew when the server has forgotten that place, as it may when it starts.
func (l *record) until(ctx context.Context, c *kubernetes.Clientset, enough func(rev int64) bool) {
	for range 2 {
		if len(l.lives) > 0 {
			err := l.lives[len(l.lives)-1].watch(ctx, c, enough)
			if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				return
			}
		}
		list, err := c.CoreV1().ConfigMaps(space).List(ctx, metav1.ListOptions{})
		if err != nil {
			return
		}
		x := &life{off: l.off, there: map[string]bool{}, rev: list.ResourceVersion, from: number(list.ResourceVersion)}
		for _, i := range list.Items {
			x.there[i.Name] = true
		}
		l.lives = append(l.lives, x)
	}
}

func number(rev string) int64 {
	n, _ := strconv.ParseInt(rev, 10, 64)
	return n
}

func (x *life) watch(ctx context.Context, c *kubernetes.Clientset, enough func(rev int64) bool) error {
	stream, err := c.CoreV1().ConfigMaps(space).Watch(ctx, metav1.ListOptions{ResourceVersion: x.rev})
	if err != nil {
		return err
	}
	defer stream.Stop()
	for !enough(number(x.rev)) {
		e, ok := <-stream.ResultChan()
		if !ok || x.off.Load() {
			return nil
		}
		cm, is := e.Object.(*corev1.ConfigMap)
		if !is {
			return apierrors.FromObject(e.Object)
		}
		n, _ := strconv.Atoi(cm.Data["n"]) // 0 for objects that are not ours
		x.rev = cm.ResourceVersion
		x.events = append(x.events, event{number(x.rev), cm.Name, n, e.Type})
	}
	return nil
}

// compare holds the record against what the writers know.
func (l *record) compare(t *testing.T, c *kubernetes.Clientset, all []*writer) {
	t.Helper()
	last, err := c.CoreV1().ConfigMaps(space).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l.until(ctx, c, func(rev int64) bool { return rev >= number(last.ResourceVersion) })
	sum, events := 0, 0
	for _, x := range l.lives {
		told := x.check(t)
		events += len(x.events)
		for _, w := range all {
			for rev, n := range w.all {
				if r := number(rev); r > x.from && r <= number(x.rev) && told[r] != n {
					t.Errorf("the watch did not tell of write %d of %s at %s", n, w.name, rev)
				}
			}
		}
	}
	for _, w := range all {
		sum += len(w.all)
	}
	t.Logf("%d acknowledged writes, %d events in %d lives of a watch", sum, events, len(l.lives))
	if events < least {
		t.Errorf("the watches told hardly anything")
	}
}

// check returns what was told, if it was in order.
func (x *life) check(t *testing.T) map[int64]int {
	t.Helper()
	told, before := map[int64]int{}, x.from
	for _, e := range x.events {
		switch {
		case e.rev <= before:
			t.Fatalf("the watch told %v after revision %d", e, before)
		case (e.typ == watch.Added) == x.there[e.name]:
			t.Fatalf("the watch told %v, which does not follow from what it told before", e)
		}
		before, x.there[e.name] = e.rev, e.typ != watch.Deleted
		if e.typ != watch.Deleted {
			told[e.rev] = e.n
		}
	}
	return told
}
