package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// Env holds what the engine gives to loops.
type Env struct {
	Client client.Client
	Log    *slog.Logger
	Events *client.Recorder // nil: events are dropped
	Now    func() time.Time // nil: time.Now
	Resync time.Duration    // every key is looked at again after about this; 0: 10 hours
	Watch  *Watchers        // where loops register to be asked about their records; may be nil
	Trail  bool             // somebody remembers what each write was made for

	Figures *Figures // what loops count; may be nil

	// Turn, if set, is asked for leave before a worker takes a key, and fails only with ctx; Chance, if set, returns a
	// number below n in place of a random one. A simulation that is to replay exactly decides both.
	Turn   func(ctx context.Context) error
	Chance func(n int64) int64
}

func (env Env) withDefaults() Env {
	if env.Now == nil {
		env.Now = time.Now
	}
	if env.Log == nil {
		env.Log = slog.Default()
	}
	if env.Resync == 0 {
		env.Resync = 10 * time.Hour
	}
	if env.Turn == nil {
		env.Turn = func(context.Context) error { return nil }
	}
	if env.Chance == nil {
		env.Chance = rand.Int64N
	}
	return env
}

// LoopName implements Loop.
func (ct *Controller[T]) LoopName() string { return ct.Name }

// Run implements Loop: one goroutine turns changes into keys, Workers goroutines reconcile them.
func (ct *Controller[T]) Run(ctx context.Context, env Env) error {
	env = env.withDefaults()
	r := &runner[T]{Controller: ct, env: env, q: newQueue(env), log: env.Log.With("loop", ct.Name)}
	r.q.keeps, r.q.writes = ct.flow()
	r.q.first, r.q.most = cmp.Or(ct.Pause, r.q.first), cmp.Or(ct.MaxPause, r.q.most)
	defer env.Watch.Add(ct.Name, r.q)()
	ct.ExternalWakes.connect(r.q)
	defer ct.ExternalWakes.connect(nil)

	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	workers := ct.Workers
	if workers == 0 {
		workers = 4
	}
	for range workers {
		wg.Go(func() { r.work(ctx) })
	}
	wg.Go(func() { r.resync(ctx) })
	return r.dispatch(ctx)
}

// longestRest bounds how long a look that took long makes its key rest.
const longestRest = time.Second

type runner[T resource.Object] struct {
	*Controller[T]
	env Env
	q   *queue
	log *slog.Logger

	change  *client.Change // that dispatch looks at
	counted bool           // what there was at the start, by those that count
}

// kinds lists what the controller must hear of; none means all.
func (r *runner[T]) kinds() []resource.Kind {
	if r.For == nil {
		return nil
	}
	list := []resource.Kind{r.For}
	for _, w := range r.Wake {
		if w.Kind == nil {
			return nil
		}
		if !slices.Contains(list, w.Kind) {
			list = append(list, w.Kind)
		}
	}
	for _, k := range r.Writes { // to see its own writes arrive
		if k == nil {
			return nil
		}
		if !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	return list
}

// flow names what the controller keeps and what it may change.
func (ct *Controller[T]) flow() (keeps string, writes []string) {
	if keeps = "*"; ct.For != nil {
		keeps = ct.For.Info().GR().String()
	}
	for _, k := range ct.Writes {
		if k == nil {
			return keeps, []string{"*"}
		}
		writes = append(writes, k.Info().GR().String())
	}
	return keeps, writes
}

// dispatch turns the feed into wakes.
func (r *runner[T]) dispatch(ctx context.Context) error {
	feed := r.env.Client.Feed(r.kinds()...)
	feed.Reuse()
	wakeKey := func(k Key) { r.q.wake(k, causeOf(r.change)) } // made once: changes are many, and most wake none
	wake := func(ns, name string) { wakeKey(Key{r.For, ns, name}) }
	for {
		batch, err := feed.Next(ctx)
		if err != nil {
			return nil // the context ended
		}
		if batch.Reset {
			r.wakeAll(batch.Read, "start")
			r.countAll(batch.Read)
		}
		for i := range batch.Changes {
			r.change = &batch.Changes[i]
			r.wakeFor(r.change, batch.Read, wake, wakeKey)
		}
		r.change = nil
		r.q.caughtUp(batch.Read)
	}
}

func (r *runner[T]) wakeFor(c *client.Change, read resource.Reader, wake func(ns, name string), wakeKey func(Key)) {
	if r.Lone == "" && (r.For == nil || c.Kind == resource.Kind(r.For)) {
		if obj := c.Object(); !r.skip(obj) {
			r.q.wake(KeyOf(c.Kind, obj), causeOf(c))
		}
	}
	for _, w := range r.Wake {
		switch {
		case w.Kind != nil && w.Kind != c.Kind:
		case w.Count != nil:
			w.Count(*c, r.env.Figures)
		case w.KeysOf != nil:
			w.KeysOf(*c, read, wakeKey)
		default:
			w.Keys(*c, read, wake)
		}
	}
}

// countAll shows what there is at the start to those that count it.
func (r *runner[T]) countAll(read resource.Reader) {
	if r.counted {
		return
	}
	r.counted = true
	for _, w := range r.Wake {
		if w.Count == nil {
			continue
		}
		for obj := range read.Each(w.Kind, "") {
			w.Count(client.Change{Kind: w.Kind, New: obj}, r.env.Figures)
		}
	}
}

// causeOf is made when a key is woken: most changes wake none.
func causeOf(c *client.Change) Cause {
	obj := c.Object()
	return Cause{Why: "change", Kind: c.Kind, Rev: c.Rev, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func (r *runner[T]) skip(obj resource.Object) bool {
	return r.Skip != nil && r.Skip(resource.Outline[T](obj))
}

// wakeAll wakes every key that exists, and those that the engine remembers.
func (r *runner[T]) wakeAll(read resource.Reader, why string) {
	kinds := []resource.Kind{r.For}
	if r.Lone != "" {
		r.q.wake(Key{Kind: r.For, Name: r.Lone}, Cause{Why: why})
		return
	}
	if r.For == nil {
		kinds = r.env.Client.Kinds().All()
	}
	if r.Find != nil { // first: passes over other keys may rest on what it learns
		r.Find(read, func(ns, name string) { r.q.wake(Key{r.For, ns, name}, Cause{Why: why}) })
	}
	for _, k := range kinds {
		for obj := range read.Each(k, "") {
			if !r.skip(obj) {
				r.q.wake(KeyOf(k, obj), Cause{Why: why})
			}
		}
	}
	for _, key := range r.q.known() { // some may have gone while nobody looked
		if read.Lookup(key.Kind, key.Namespace, key.Name) == nil {
			r.q.wake(key, Cause{Why: why})
		}
	}
}

// resync is a safety net against a lost wake; the loops do not depend on it. When the wall clock was set they do: the queue's waits
// go by another clock.
func (r *runner[T]) resync(ctx context.Context) {
	for {
		asked := r.env.Watch.asked()
		timer := time.NewTimer(r.env.Resync + time.Duration(r.env.Chance(int64(r.env.Resync/10)+1)))
		why := "resync"
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-asked:
			timer.Stop()
			why = "clock"
		case <-timer.C:
		}
		r.wakeAll(r.env.Client.Read(), why)
	}
}

func (r *runner[T]) work(ctx context.Context) {
	for {
		e := r.q.next(ctx)
		if e == nil {
			return
		}
		read := r.env.Client.Read()
		if !passed(e.fence, read) {
			r.q.hold(e)
			// The view may have caught up between the look and the hold, and then no batch would come.
			r.q.caughtUp(r.env.Client.Read())
			continue
		}
		r.step(ctx, e, read)
	}
}

// step reconciles one key.
func (r *runner[T]) step(ctx context.Context, e *entry, read resource.Reader) {
	c := &Ctx{Reader: read, env: r.env, writes: r.Writes, loop: r.Name}
	started := r.env.Now()
	var o outcome
	o.again, o.gone, o.err = r.reconcile(r.because(ctx, e), c, e.key)
	o.wrote, o.writes, o.note = c.wrote, c.did, c.note
	o.took = r.env.Now().Sub(started)
	if r.Rest > 0 {
		o.rest = max(r.Rest, min(4*o.took, longestRest))
	}
	if ctx.Err() != nil && o.err != nil {
		o.err = nil // the process stops; the next one starts cold
	}
	r.q.finish(e, o)
	switch {
	case o.err == nil:
	case apierrors.IsConflict(o.err) || apierrors.IsNotFound(o.err) || apierrors.IsAlreadyExists(o.err):
		r.log.Debug("raced with another writer", "object", e.key, "took", o.took, "err", o.err)
	default:
		r.log.Warn("reconcile failed", "object", e.key, "took", o.took, "err", o.err)
	}
}

// reconcile calls the controller and turns a panic into an error: one bad object must not stop the others.
func (r *runner[T]) reconcile(ctx context.Context, c *Ctx, key Key) (again time.Duration, gone bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reconcile %s: panic: %v\n%s", key, p, debug.Stack())
		}
	}()
	if r.Lone != "" { // an object may be called as the key is
		again, err = r.Gone(ctx, c, key)
		return again, false, err // the one key is never forgotten: its rest and its fence outlast a look
	}
	obj := c.Lookup(key.Kind, key.Namespace, key.Name)
	switch {
	case obj != nil && r.skip(obj):
		return 0, false, nil
	case obj != nil:
		see := resource.As[T]
		if r.Outline {
			see = resource.Outline[T]
		}
		again, err = r.Reconcile(ctx, c, see(obj))
		return again, false, err
	case r.Gone != nil:
		again, err = r.Gone(ctx, c, key)
		return again, true, err
	}
	return 0, true, nil
}

// errUndeclared says that a controller wrote what it did not declare.
var errUndeclared = errors.New("the controller did not declare that it writes this kind")
