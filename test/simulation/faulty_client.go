package simulation

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// A moment is the state after one step, and what the step changed.
type moment struct {
	snap    *view.Snapshot
	changes []view.Change
}

// history is all moments, for readers who lag behind. It belongs to the run's goroutine while others rest, and is read
// by whoever takes the step.
type history struct {
	mu      sync.Mutex
	list    []moment
	base    int // index of list[0]
	changed map[resource.Kind]int
	any     int
}

// keepMoments is the number of moments that a reader may lag before it has to look at everything.
const keepMoments = 1500

func (h *history) add(m moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, m)
	at := h.base + len(h.list) - 1
	for _, c := range m.changes {
		h.changed[c.Kind], h.any = at, at
	}
	if len(h.list) > keepMoments {
		n := keepMoments / 2
		h.list = append([]moment(nil), h.list[n:]...)
		h.base += n
	}
}

func (h *history) newest() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.base + len(h.list) - 1
}

func (h *history) at(i int) moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.list[min(max(i-h.base, 0), len(h.list)-1)]
}

// news says whether one of the kinds (none: any) changed behind moment i.
func (h *history) news(i int, kinds []resource.Kind) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(kinds) == 0 {
		return h.any > i
	}
	return slices.ContainsFunc(kinds, func(k resource.Kind) bool { return h.changed[k] > i })
}

// last is the newest moment that changed anything.
func (h *history) last() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.any
}

func (h *history) lost(i int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return i < h.base-1
}

// A faultyClient is the client of one loop: each call is a step that the run lets through, refuses or forgets; its reads lag behind.
type faultyClient struct {
	*client.Local
	w   *world
	who string
	lag int // how many moments its reads are behind

	kill context.CancelFunc // ends the loop

	mu   sync.Mutex
	seen int // the newest moment that it was shown
}

var _ client.Client = (*faultyClient)(nil)

// Read implements client.Client.
func (c *faultyClient) Read() resource.Reader {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to := c.w.hist.newest() - c.lag; to > c.seen && !c.w.cutOff(c.who) {
		c.seen = to
	}
	return c.w.hist.at(c.seen).snap
}

// show makes moment i the oldest that reads may show from now on.
func (c *faultyClient) show(i int) resource.Reader {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = max(c.seen, i)
	return c.w.hist.at(c.seen).snap
}

// call is one call of the server.
func (c *faultyClient) call(ctx context.Context, what string, f func(ctx context.Context) (resource.Object,
	error)) (resource.Object, error) {
	ft, err := c.turn(ctx, what)
	if err != nil {
		return nil, err
	}
	switch ft {
	case refuse:
		return nil, apierrors.NewServiceUnavailable("the door is shut")
	case conflict:
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "things"}, what, fmt.Errorf("the dice say that it was changed"))
	}
	if c.kill == nil { // it outlives the server
		var hangUp context.CancelFunc
		ctx, hangUp = context.WithCancel(ctx)
		defer hangUp()
		defer context.AfterFunc(c.w.powered, hangUp)()
		c.Ops, c.View, c.Set = c.w.srv, c.w.view, c.w.set
	}
	out, err := f(context.WithValue(ctx, callerKey{}, c))
	if ft == slow {
		if _, err := c.turn(ctx, answer+what); err != nil {
			return nil, err
		}
	}
	if ft == forget && err == nil {
		c.w.doubt(c.who)
		return nil, apierrors.NewTimeoutError("the answer got lost", 1)
	}
	return out, err
}

// turn waits for a step of a call. Several may be out of time at the same moment: each gives up in its turn.
func (c *faultyClient) turn(ctx context.Context, what string) (outcome, error) {
	ft, err := c.w.steps.ask(ctx, c.w.powered, c.who, what, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		return ft, err
	}
	if _, err := c.w.steps.ask(context.WithoutCancel(ctx), c.w.powered, c.who, giveUp+what, nil); err != nil {
		return 0, err
	}
	return 0, context.DeadlineExceeded
}

type callerKey struct{}

// answer begins what a step is called by which a slow answer arrives.
const answer = "answer "

// giveUp begins what a step is called by which a call ends that took too long.
const giveUp = "give up "

func label(verb string, k resource.Kind, obj metav1.Object, sub string) string {
	name := obj.GetName()
	if name == "" { // what is in it tells it from others that wait
		sum := fnv.New64a()
		if p, ok := obj.(interface{ Marshal() ([]byte, error) }); ok {
			data, _ := p.Marshal()
			sum.Write(data)
		}
		name = fmt.Sprintf("%s%x", obj.GetGenerateName(), sum.Sum64())
	}
	return what(verb, k, obj.GetNamespace(), name, sub)
}

func what(verb string, k resource.Kind, ns, name, sub string) string {
	return strings.Join([]string{verb, k.Info().Plural, ns, name, sub}, " ")
}

// Get implements client.Client.
func (c *faultyClient) Get(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	return c.call(ctx, what("get", k, ns, name, ""), func(ctx context.Context) (resource.Object, error) {
		return c.Local.Get(ctx, k,
			ns, name)
	})
}

// Create implements client.Client.
func (c *faultyClient) Create(ctx context.Context, k resource.Kind, obj resource.Object) (resource.Object, error) {
	return c.call(ctx, label("create", k, obj, ""), func(ctx context.Context) (resource.Object, error) {
		return c.w.mutation.created(c.Local.Create(ctx, k, c.w.mutation.create(c, k, obj)))
	})
}

// Update implements client.Client.
func (c *faultyClient) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	return c.call(ctx, label("update", k, obj, sub), func(ctx context.Context) (resource.Object, error) {
		return c.Local.Update(ctx, k, c.w.mutation.update(c, k, obj), sub)
	})
}

// Patch implements client.Client.
func (c *faultyClient) Patch(ctx context.Context, k resource.Kind, ns, name string, p client.Patch) (resource.Object, error) {
	return c.call(ctx, what("patch", k, ns, name, p.Sub), func(ctx context.Context) (resource.Object, error) {
		return c.Local.Patch(ctx, k, ns, name, c.w.mutation.patch(c, k, p))
	})
}

// Delete implements client.Client.
func (c *faultyClient) Delete(ctx context.Context, k resource.Kind, ns, name string, opts *metav1.DeleteOptions) error {
	_, err := c.call(ctx, what("delete", k, ns, name, ""), func(ctx context.Context) (resource.Object, error) {
		if c.kill == nil {
			c.w.checks.rules.evicted = ""
		}
		return nil, c.Local.Delete(ctx, k, ns, c.w.mutation.victim(c, k, ns, name), c.w.mutation.remove(c, k, opts))
	})
	return err
}

// Call implements client.Client.
func (c *faultyClient) Call(ctx context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (resource.Object, error) {
	return c.call(ctx, what("call", k, ns, name, sub), func(ctx context.Context) (resource.Object, error) {
		if sub == "eviction" {
			c.w.checks.rules.evicted = name
			if c.w.mutation != nil && c.w.mutation.byForce {
				return nil, c.Local.Delete(ctx, k, ns, name, &metav1.DeleteOptions{})
			}
		}
		return c.Local.Call(ctx, k, ns, name, sub, c.w.mutation.call(c, in))
	})
}

// Feed implements client.Client.
func (c *faultyClient) Feed(kinds ...resource.Kind) client.Feed { return &feed{c: c, kinds: kinds} }

// feed is a feed through which changes come late, twice, or never.
type feed struct {
	c     *faultyClient
	kinds []resource.Kind
	at    int
	begun bool
	last  []client.Change

	asked int // when news were last looked for: moment of the newest change then
	news  bool
}

// ready says whether there is something to hear.
func (f *feed) ready() bool {
	if any := f.c.w.hist.last(); any != f.asked {
		f.asked, f.news = any, f.c.w.hist.news(f.at, f.kinds)
	}
	return f.news
}

// Next implements client.Feed.
func (f *feed) Next(ctx context.Context) (client.Batch, error) {
	hist := &f.c.w.hist
	if !f.begun || hist.lost(f.at) {
		if _, err := f.c.w.steps.ask(ctx, f.c.w.powered, f.c.who, "look at all", nil); err != nil {
			return client.Batch{}, err
		}
		f.begun, f.asked = true, -1
		return f.reset(), nil
	}
	ft, err := f.c.w.steps.ask(ctx, f.c.w.powered, f.c.who, "hear", f.ready)
	if err != nil {
		return client.Batch{}, err
	}
	f.asked = -1
	to := hist.newest()
	if ft == part {
		to = f.at + 1 + f.c.w.steps.rng.IntN(to-f.at)
	}
	switch ft {
	case gap:
		return f.reset(), nil
	case lose:
		f.at = to
		return client.Batch{Read: f.c.show(f.at)}, nil
	}
	var list []client.Change
	for i := f.at + 1; i <= to; i++ {
		list = append(list, changes(hist.at(i).changes, f.kinds)...)
	}
	f.at = to
	told := list
	if ft == again {
		told = append(slices.Clone(f.last), list...)
	}
	f.last = list
	return client.Batch{Read: f.c.show(f.at), Changes: told}, nil
}

// Reuse implements client.Feed: the feed tells some changes twice, so it keeps them.
func (f *feed) Reuse() {}

func (f *feed) reset() client.Batch {
	f.at = f.c.w.hist.newest()
	return client.Batch{Read: f.c.show(f.at), Reset: true}
}

func changes(list []view.Change, kinds []resource.Kind) (out []client.Change) {
	for _, c := range list {
		if len(kinds) > 0 && !slices.Contains(kinds, c.Kind) {
			continue
		}
		x := client.Change{Kind: c.Kind, Rev: c.Rev}
		if c.Old != nil {
			x.Old = c.Old.Object
		}
		if c.New != nil {
			x.New = c.New.Object
		}
		out = append(out, x)
	}
	return out
}
