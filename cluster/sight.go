package cluster

import (
	"cmp"
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/gaps"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

// A sight limits gaps and fights to what one reader may get by other requests: who may read gaps need not be allowed to read the objects
// that they name. A gap is explained again from what the reader may see. It is made for one request, and remembers what
// was allowed.
type sight struct {
	authorize auth.Authorizer
	user      *auth.User
	known     map[convergence.Object]bool
	spaces    map[string]bool // the namespaces of the gaps
	veil      *veil           // nil until there is a gap

	hid bool // something was not told
}

// sight is the reader's; nil: it sees all.
func (o *explainer) sight(ctx context.Context, r *server.Request) *sight {
	ofOthers := r.Kind == resource.Kind(convergence.Gaps) || r.Kind == resource.Kind(convergence.Fights)
	if r.User == nil || r.User.In(auth.GroupMasters) || !ofOthers {
		return nil
	}
	s := newSight(o.authorize, r.User)
	if s.may(ctx, convergence.Object{Resource: "*.*"}) {
		return nil
	}
	return s
}

func newSight(authorize auth.Authorizer, u *auth.User) *sight {
	return &sight{authorize: authorize, user: u, known: map[convergence.Object]bool{}, spaces: map[string]bool{}}
}

// may says that the reader may get an object; without a name all of the kind, in the namespace if there is one.
func (s *sight) may(ctx context.Context, o convergence.Object) bool {
	key := convergence.Object{Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}
	may, ok := s.known[key]
	if !ok {
		gr := schema.ParseGroupResource(o.Resource)
		d, _, err := s.authorize.Authorize(ctx, &auth.Attributes{User: s.user, Verb: "get", Group: gr.Group, Version: "*",
			Resource: gr.Resource, Namespace: o.Namespace, Name: o.Name})
		may = err == nil && d == auth.Allow
		s.known[key] = may
	}
	return may
}

// sees says that the reader may get the object: by the right to all objects of its kind there, which is asked for once, or to that one.
func (s *sight) sees(ctx context.Context, o convergence.Object) bool {
	all := convergence.Object{Resource: o.Resource, Namespace: o.Namespace}
	return s.may(ctx, all) || o.Name != "" && s.may(ctx, o)
}

// shown is an entry as the reader may see it; nil when it may not.
func (s *sight) shown(ctx context.Context, all *converge.World, k resource.Kind, e *view.Entry) *view.Entry {
	if s == nil || e == nil {
		return e
	}
	switch x := e.Object.(type) {
	case *convergence.Fight:
		if !s.sees(ctx, x.Object) {
			s.hid = true
			return nil
		}
	case *convergence.Gap:
		g := s.retold(ctx, all, x)
		if g == nil {
			return nil
		}
		return view.NewEntry(k, e.Rev, g)
	}
	return e
}

// retold is a gap as the reader may see it; nil when it may not.
func (s *sight) retold(ctx context.Context, all *converge.World, g *convergence.Gap) *convergence.Gap {
	f := (*convergence.Gap)(nil)
	if s.sees(ctx, g.Object) {
		f = s.world(ctx, all, g.Object.Namespace).Veiled(g)
	}
	s.hid = s.hid || f == nil || converge.Partial(f)
	return f
}

// List implements server.Operations.
func (o *explainer) List(ctx context.Context, r *server.Request, opts *metav1.ListOptions) (*server.List, error) {
	l, err := o.MemoryKinds.List(ctx, r, opts)
	s := o.sight(ctx, r)
	if err != nil || s == nil {
		return l, err
	}
	out := &server.List{Revision: l.Revision, Continue: l.Continue} // how many remain would count what is left out
	all, below := o.board.World(), map[string]bool{}
	for _, e := range l.Entries {
		s.spaces[e.Object.GetNamespace()] = true
	}
	for _, e := range l.Entries {
		if at := s.shown(ctx, all, r.Kind, e); at != nil {
			out.Entries = append(out.Entries, at)
		} else if g, ok := e.Object.(*convergence.Gap); ok && len(g.Chain) > 0 {
			below[g.Object.Namespace] = true
		}
	}
	if opts.LabelSelector+opts.FieldSelector+opts.Continue == "" && l.Continue == "" {
		s.addBelow(ctx, all, r.Kind, out, below)
	}
	if s.hid && r.Warn != nil {
		r.Warn("some of what is not what it should be, or its cause, is not told: you may not read it")
	}
	return out, nil
}

// addBelow adds the gaps that one tells which the reader may not see, of those namespaces.
func (s *sight) addBelow(ctx context.Context, all *converge.World, k resource.Kind, out *server.List, in map[string]bool) {
	has := map[convergenceKey]bool{}
	for _, e := range out.Entries {
		has[convergenceKey{e.Object.GetNamespace(), e.Object.GetName()}] = true
	}
	for ns := range in {
		list, _ := gaps.List(s.world(ctx, all, ns), ns)
		for _, g := range list {
			of, ok := all.Kinds.GR(schema.ParseGroupResource(g.Object.Resource))
			if has[convergenceKey{g.Namespace, g.Name}] || !ok {
				continue
			}
			if obj := all.Read.Lookup(of, g.Object.Namespace, g.Object.Name); obj != nil {
				if step := all.Explain(of, obj); step != nil {
					if told := s.retold(ctx, all, step.Gap()); told != nil {
						told.Alike(g.Others)
						out.Entries = append(out.Entries, view.NewEntry(k, 0, told))
					}
				}
			}
		}
	}
	slices.SortStableFunc(out.Entries, func(a, b *view.Entry) int {
		return cmp.Or(cmp.Compare(a.Object.GetNamespace(), b.Object.GetNamespace()), cmp.Compare(a.Object.GetName(), b.Object.GetName()))
	})
}

// Watch implements server.Operations. What the reader may not see when it changes is not told then, and may be told later.
func (o *explainer) Watch(ctx context.Context, r *server.Request, opts *metav1.ListOptions, f func([]server.Event) error) error {
	if o.sight(ctx, r) == nil {
		return o.MemoryKinds.Watch(ctx, r, opts, f)
	}
	q := *r
	q.Offer = nil // it would tell all
	return o.MemoryKinds.Watch(ctx, &q, opts, func(batch []server.Event) error {
		s := o.sight(ctx, r) // anew: rights change
		if s == nil {
			return f(batch)
		}
		for _, e := range batch {
			if e.Entry != nil {
				s.spaces[e.Entry.Object.GetNamespace()] = true
			}
		}
		var out []server.Event
		all := o.board.World()
		for _, e := range batch {
			if g, gone := goneGap(e); gone && s.sees(ctx, g.Object) {
				e.Entry = view.NewEntry(r.Kind, e.Entry.Rev, &convergence.Gap{ObjectMeta: g.ObjectMeta, Object: g.Object, Since: g.Since})
			} else if e.Entry = s.shown(ctx, all, r.Kind, e.Entry); e.Entry == nil && e.Type != server.Bookmark {
				continue
			}
			out = append(out, e)
		}
		return f(out)
	})
}

// goneGap is the gap of which an event says that it is over: its object may be gone.
func goneGap(e server.Event) (*convergence.Gap, bool) {
	if e.Type != server.Deleted || e.Entry == nil {
		return nil, false
	}
	g, ok := e.Entry.Object.(*convergence.Gap)
	return g, ok
}
