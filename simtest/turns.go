package simtest

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

// turns puts what races into an order that the seed chooses: writes, and the operator's requests and events. Each of them waits; when
// all others in the bubble rest, the dice pick one, and nobody else goes before all that follows from it has come to rest.
type turns struct {
	ctx  context.Context
	bell chan struct{} // something waits
	over chan struct{} // closed when run has ended

	mu      sync.Mutex
	waiting []*turn // by what they are for: who came first is Go's choice
	rest    []chan struct{}
	dice    *rand.Rand
	count   int
	taken   []taken
}

type turn struct {
	what string
	seq  int
	come chan struct{}
}

// taken is a turn that somebody took.
type taken struct {
	at   int64 // Unix time in nanoseconds
	what string
}

func newTurns(ctx context.Context, seed uint64) *turns {
	return &turns{ctx: ctx, bell: make(chan struct{}, 1), over: make(chan struct{}), dice: rand.New(rand.NewPCG(seed, 3))}
}

// wait returns when it is the caller's turn, or when ctx or the run ends.
func (t *turns) wait(ctx context.Context, what string) {
	if t.ctx.Err() != nil || ctx.Err() != nil {
		return
	}
	own := &turn{what: what, come: make(chan struct{})}
	t.mu.Lock()
	t.count++
	own.seq = t.count
	at, _ := slices.BinarySearchFunc(t.waiting, own, func(a, b *turn) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.seq, b.seq))
	})
	t.waiting = slices.Insert(t.waiting, at, own)
	t.mu.Unlock()
	t.ring()
	select {
	case <-own.come:
		return
	case <-ctx.Done():
	case <-t.ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(x *turn) bool { return x == own })
}

// settle returns when all others rest.
func (t *turns) settle() {
	quiet := make(chan struct{})
	t.mu.Lock()
	t.rest = append(t.rest, quiet)
	t.mu.Unlock()
	t.ring()
	select {
	case <-quiet:
	case <-t.over:
		synctest.Wait()
	}
}

func (t *turns) ring() {
	select {
	case t.bell <- struct{}{}:
	default:
	}
}

// run gives turns until its context ends. Nobody else in the bubble may call synctest.Wait meanwhile.
func (t *turns) run() {
	defer close(t.over)
	for {
		select {
		case <-t.bell:
		case <-t.ctx.Done():
			return
		}
		for t.ctx.Err() == nil {
			synctest.Wait()
			if !t.next() {
				break
			}
		}
	}
}

// next lets one go, if any waits; if none does, those go who wait for rest.
func (t *turns) next() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.waiting); n > 0 {
		at := t.dice.IntN(n)
		t.taken = append(t.taken, taken{time.Now().UnixNano(), t.waiting[at].what})
		close(t.waiting[at].come)
		t.waiting = slices.Delete(t.waiting, at, at+1)
		return true
	}
	for _, quiet := range t.rest {
		close(quiet)
	}
	t.rest = nil
	return false
}

// orderly is a server whose writes take turns.
type orderly struct {
	server.Operations
	turns *turns
	who   string // comes to it: a loop, or all who come over HTTP
}

func (o orderly) wait(ctx context.Context, verb string, r *server.Request, name string) {
	what := ""
	if r.Kind != nil {
		what = r.Kind.Info().Plural
	}
	o.turns.wait(ctx, o.who+": "+verb+" "+what+"/"+r.Sub+" "+r.Namespace+"/"+cmp.Or(r.Name, name))
}

// Create implements server.Operations, as do the others.
func (o orderly) Create(ctx context.Context, r *server.Request, obj resource.Object) (*view.Entry, error) {
	o.wait(ctx, "create", r, cmp.Or(obj.GetName(), obj.GetGenerateName()))
	return o.Operations.Create(ctx, r, obj)
}

func (o orderly) Update(ctx context.Context, r *server.Request, obj resource.Object) (*view.Entry, bool, error) {
	o.wait(ctx, "update", r, obj.GetName())
	return o.Operations.Update(ctx, r, obj)
}

func (o orderly) Patch(ctx context.Context, r *server.Request, pt types.PatchType, data []byte, force bool) (*view.Entry, bool, error) {
	o.wait(ctx, "patch", r, "")
	return o.Operations.Patch(ctx, r, pt, data, force)
}

func (o orderly) Delete(ctx context.Context, r *server.Request, opts *metav1.DeleteOptions) (*view.Entry, bool, error) {
	o.wait(ctx, "delete", r, "")
	return o.Operations.Delete(ctx, r, opts)
}

func (o orderly) DeleteCollection(ctx context.Context, r *server.Request, opts *metav1.DeleteOptions,
	which *metav1.ListOptions) (*server.List, error) {
	o.wait(ctx, "deletecollection", r, "")
	return o.Operations.DeleteCollection(ctx, r, opts, which)
}

func (o orderly) Call(ctx context.Context, r *server.Request, verb string, in resource.Object) (resource.Object, error) {
	o.wait(ctx, "call "+verb, r, "")
	return o.Operations.Call(ctx, r, verb, in)
}
