package proof

import (
	"context"
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
// by whoever has the turn.
type history struct {
	mu      sync.Mutex
	list    []moment
	base    int // index of list[0]
	changed map[resource.Kind]int
	any     int
}

// keepMoments is how far a reader may lag before it has to look at everything.
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

// A hand is the client of one loop: its calls wait for their turn, its reads lag behind.
type hand struct {
	*client.Local
	w   *world
	who string
	lag int // how many moments its reads are behind

	kill context.CancelFunc // ends the loop

	mu   sync.Mutex
	seen int // the newest moment that it was shown
}

var _ client.Client = (*hand)(nil)

// Read implements client.Client.
func (h *hand) Read() resource.Reader {
	h.mu.Lock()
	defer h.mu.Unlock()
	if to := h.w.hist.newest() - h.lag; to > h.seen && !h.w.cutOff(h.who) {
		h.seen = to
	}
	return h.w.hist.at(h.seen).snap
}

// show makes moment i the oldest that reads may show from now on.
func (h *hand) show(i int) resource.Reader {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = max(h.seen, i)
	return h.w.hist.at(h.seen).snap
}

// call is one call of the server.
func (h *hand) call(ctx context.Context, what string, f func(ctx context.Context) (resource.Object, error)) (resource.Object, error) {
	ft, err := h.w.turns.ask(ctx, h.w.lit, h.who, what, nil)
	if err != nil {
		return nil, err
	}
	switch ft {
	case refuse:
		return nil, apierrors.NewServiceUnavailable("the door is shut")
	case conflict:
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "things"}, what, fmt.Errorf("the dice say that it was changed"))
	}
	if h.kill == nil { // it outlives the server
		var hangUp context.CancelFunc
		ctx, hangUp = context.WithCancel(ctx)
		defer hangUp()
		defer context.AfterFunc(h.w.lit, hangUp)()
		h.Ops, h.View, h.Set = h.w.srv, h.w.view, h.w.set
	}
	out, err := f(context.WithValue(ctx, callerKey{}, h))
	if ft == forget && err == nil {
		h.w.doubt(h.who)
		return nil, apierrors.NewTimeoutError("the answer got lost", 1)
	}
	return out, err
}

type callerKey struct{}

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
func (h *hand) Get(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	return h.call(ctx, what("get", k, ns, name, ""), func(ctx context.Context) (resource.Object, error) { return h.Local.Get(ctx, k, ns, name) })
}

// Create implements client.Client.
func (h *hand) Create(ctx context.Context, k resource.Kind, obj resource.Object) (resource.Object, error) {
	return h.call(ctx, label("create", k, obj, ""), func(ctx context.Context) (resource.Object, error) {
		return h.w.bent.created(h.Local.Create(ctx, k, h.w.bent.create(h, k, obj)))
	})
}

// Update implements client.Client.
func (h *hand) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	return h.call(ctx, label("update", k, obj, sub), func(ctx context.Context) (resource.Object, error) {
		return h.Local.Update(ctx, k, h.w.bent.update(h, k, obj), sub)
	})
}

// Patch implements client.Client.
func (h *hand) Patch(ctx context.Context, k resource.Kind, ns, name string, p client.Patch) (resource.Object, error) {
	return h.call(ctx, what("patch", k, ns, name, p.Sub), func(ctx context.Context) (resource.Object, error) {
		return h.Local.Patch(ctx, k, ns, name, h.w.bent.patch(h, k, p))
	})
}

// Delete implements client.Client.
func (h *hand) Delete(ctx context.Context, k resource.Kind, ns, name string, opts *metav1.DeleteOptions) error {
	_, err := h.call(ctx, what("delete", k, ns, name, ""), func(ctx context.Context) (resource.Object, error) {
		if h.kill == nil {
			h.w.checks.rules.evicted = ""
		}
		return nil, h.Local.Delete(ctx, k, ns, h.w.bent.victim(h, k, ns, name), h.w.bent.remove(h, k, opts))
	})
	return err
}

// Call implements client.Client.
func (h *hand) Call(ctx context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (resource.Object, error) {
	return h.call(ctx, what("call", k, ns, name, sub), func(ctx context.Context) (resource.Object, error) {
		if sub == "eviction" {
			h.w.checks.rules.evicted = name
			if h.w.bent != nil && h.w.bent.byForce {
				return nil, h.Local.Delete(ctx, k, ns, name, &metav1.DeleteOptions{})
			}
		}
		return h.Local.Call(ctx, k, ns, name, sub, h.w.bent.call(h, in))
	})
}

// Feed implements client.Client.
func (h *hand) Feed(kinds ...resource.Kind) client.Feed { return &feed{h: h, kinds: kinds} }

// feed is a feed through which changes come late, twice, or never.
type feed struct {
	h     *hand
	kinds []resource.Kind
	at    int
	begun bool
	last  []client.Change

	asked int // when news were last looked for: moment of the newest change then
	news  bool
}

// ready says whether there is something to hear.
func (f *feed) ready() bool {
	if any := f.h.w.hist.last(); any != f.asked {
		f.asked, f.news = any, f.h.w.hist.news(f.at, f.kinds)
	}
	return f.news
}

// Next implements client.Feed.
func (f *feed) Next(ctx context.Context) (client.Batch, error) {
	hist := &f.h.w.hist
	if !f.begun || hist.lost(f.at) {
		if _, err := f.h.w.turns.ask(ctx, f.h.w.lit, f.h.who, "look at all", nil); err != nil {
			return client.Batch{}, err
		}
		f.begun, f.asked = true, -1
		return f.reset(), nil
	}
	ft, err := f.h.w.turns.ask(ctx, f.h.w.lit, f.h.who, "hear", f.ready)
	if err != nil {
		return client.Batch{}, err
	}
	f.asked = -1
	to := hist.newest()
	if ft == part {
		to = f.at + 1 + f.h.w.turns.dice.IntN(to-f.at)
	}
	switch ft {
	case gap:
		return f.reset(), nil
	case lose:
		f.at = to
		return client.Batch{Read: f.h.show(f.at)}, nil
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
	return client.Batch{Read: f.h.show(f.at), Changes: told}, nil
}

func (f *feed) reset() client.Batch {
	f.at = f.h.w.hist.newest()
	return client.Batch{Read: f.h.show(f.at), Reset: true}
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
