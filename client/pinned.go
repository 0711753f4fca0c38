package client

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
)

// A Ref names one object, or a set of them.
type Ref struct {
	Kind            resource.Kind
	Namespace, Name string
	Fields          string // with no Name: the field selector of the objects that are meant
}

// Pinned is a Remote that also keeps copies of single objects, each by a watch of its own: a node may read the ConfigMaps and Secrets
// that its pods use, and no others (the node authorizer), so it can't watch the kind. Get answers from the copies, and List for sets of
// objects. What Read and Feed show is the Remote's alone.
type Pinned struct {
	*Remote
	changed func(k resource.Kind, obj resource.Object)

	mu   sync.Mutex
	ctx  context.Context // of Run; nil: not begun
	wg   sync.WaitGroup
	pins map[Ref]*pin
}

// A pin is the copy of what one Ref names.
type pin struct {
	stop   context.CancelFunc
	synced bool
	objs   map[types.NamespacedName]resource.Object
}

// NewPinned returns a client that keeps nothing yet.
func NewPinned(r *Remote) *Pinned { return &Pinned{Remote: r, pins: map[Ref]*pin{}} }

// OnChange sets who is called, before Run, when a copy changed: from any goroutine, with the last state of an object that was deleted.
func (p *Pinned) OnChange(f func(k resource.Kind, obj resource.Object)) { p.changed = f }

// Run keeps all copies up to date until ctx ends, as Remote's.
func (p *Pinned) Run(ctx context.Context, ready func()) error {
	p.mu.Lock()
	p.ctx = ctx
	for ref, x := range p.pins {
		p.follow(ref, x)
	}
	p.mu.Unlock()
	defer p.wg.Wait()
	return p.Remote.Run(ctx, ready)
}

// Keep says which objects, and sets of them, to keep copies of, and no others.
func (p *Pinned) Keep(list []Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	want := map[Ref]bool{}
	for _, ref := range list {
		want[ref] = true
		if p.pins[ref] == nil {
			x := &pin{stop: func() {}}
			p.pins[ref] = x
			p.follow(ref, x)
		}
	}
	for ref, x := range p.pins {
		if !want[ref] {
			x.stop()
			delete(p.pins, ref)
		}
	}
}

// Get implements Client.
func (p *Pinned) Get(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	p.mu.Lock()
	x := p.pins[Ref{Kind: k, Namespace: ns, Name: name}]
	if x == nil || !x.synced {
		p.mu.Unlock()
		return p.Remote.Get(ctx, k, ns, name)
	}
	obj := x.objs[types.NamespacedName{Namespace: ns, Name: name}]
	p.mu.Unlock()
	if obj == nil {
		return nil, apierrors.NewNotFound(k.Info().GR(), name)
	}
	return obj, nil
}

// List returns the copies of a set of objects. complete: that is all of them; else it is not known yet.
func (p *Pinned) List(ref Ref) (list []resource.Object, complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.pins[ref]
	if x == nil || !x.synced {
		return nil, false
	}
	return slices.Collect(maps.Values(x.objs)), true
}

// follow watches one object. p is locked.
func (p *Pinned) follow(ref Ref, x *pin) {
	if p.ctx == nil || p.ctx.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(p.ctx)
	x.stop = stop
	p.wg.Go(func() {
		defer stop()
		src := Source{Kind: ref.Kind, Namespace: ref.Namespace, Fields: ref.Fields}
		if ref.Name != "" {
			src.Fields = "metadata.name=" + ref.Name
		}
		p.Remote.follow(ctx, src, &copyOf{p: p, ref: ref, pin: x}, func() {})
	})
}

// copyOf takes what one watch tells into a pin.
type copyOf struct {
	p   *Pinned
	ref Ref
	pin *pin
}

func (c *copyOf) replace(_ int64, list []resource.Object) {
	objs := map[types.NamespacedName]resource.Object{}
	for _, o := range list {
		objs[nameOf(o)] = o
	}
	c.p.mu.Lock()
	for name, was := range c.pin.objs {
		if objs[name] == nil {
			list = append(list, was)
		}
	}
	c.pin.objs, c.pin.synced = objs, true
	c.p.mu.Unlock()
	c.tell(list...)
}

func (c *copyOf) update(_ int64, obj resource.Object, deleted bool) {
	c.p.mu.Lock()
	if deleted {
		if was := c.pin.objs[nameOf(obj)]; was != nil {
			obj = was
		}
		delete(c.pin.objs, nameOf(obj))
	} else {
		c.pin.objs[nameOf(obj)] = obj
	}
	c.p.mu.Unlock()
	c.tell(obj)
}

func (c *copyOf) advance(int64) {}

// tell says what changed. One object that never changes need not be watched any more: it can only be replaced by another, for other pods.
func (c *copyOf) tell(list ...resource.Object) {
	c.p.mu.Lock()
	stop, there := c.pin.stop, len(c.pin.objs) > 0
	c.p.mu.Unlock()
	for _, obj := range list {
		if there && c.ref.Name != "" && immutable(obj) {
			stop()
		}
		if c.p.changed != nil {
			c.p.changed(c.ref.Kind, obj)
		}
	}
}

func nameOf(obj resource.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// immutable says that the object never changes: nobody need watch it.
func immutable(obj resource.Object) bool {
	var is *bool
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		is = o.Immutable
	case *corev1.Secret:
		is = o.Immutable
	}
	return is != nil && *is
}
