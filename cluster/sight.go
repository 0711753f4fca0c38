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
	out.Entries = s.tell(ctx, o.board.World(), r, l.Entries, opts.LabelSelector+opts.FieldSelector+opts.Continue == "" && l.Continue == "")
	if s.hid && r.Warn != nil {
		r.Warn("some of what is not what it should be, or its cause, is not told: you may not read it")
	}
	return out, nil
}

// tell gives what the reader may see of entries, and if they are all that there are, of what lies below those that it may not see.
func (s *sight) tell(ctx context.Context, all *converge.World, r *server.Request, entries []*view.Entry, whole bool) (out []*view.Entry) {
	if s == nil {
		return entries
	}
	below := map[string]bool{}
	for _, e := range entries {
		s.spaces[e.Object.GetNamespace()] = true
	}
	for _, e := range entries {
		if at := s.shown(ctx, all, r.Kind, e); at != nil {
			out = append(out, at)
		} else if g, ok := e.Object.(*convergence.Gap); ok && len(g.Chain) > 0 {
			below[g.Object.Namespace] = true
		}
	}
	if whole {
		out = s.withBelow(ctx, all, r, out, below)
	}
	return out
}

// withBelow adds the gaps that one tells which the reader may not see, of those namespaces, as far as the request is for them.
func (s *sight) withBelow(ctx context.Context, all *converge.World, r *server.Request, out []*view.Entry,
	in map[string]bool) []*view.Entry {
	has := map[convergenceKey]bool{}
	for _, e := range out {
		has[convergenceKey{e.Object.GetNamespace(), e.Object.GetName()}] = true
	}
	for ns := range in {
		list, _ := gaps.List(s.world(ctx, all, ns), ns)
		for _, g := range list {
			of, ok := all.Kinds.GR(schema.ParseGroupResource(g.Object.Resource))
			if has[convergenceKey{g.Namespace, g.Name}] || !ok || r.Namespace != "" && g.Namespace != r.Namespace {
				continue
			}
			if obj := all.Read.Lookup(of, g.Object.Namespace, g.Object.Name); obj != nil {
				if step := all.Explain(of, obj); step != nil {
					if told := s.retold(ctx, all, step.Gap()); told != nil {
						told.Alike(g.Others)
						out = append(out, view.NewEntry(r.Kind, 0, told))
					}
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *view.Entry) int {
		return cmp.Or(cmp.Compare(a.Object.GetNamespace(), b.Object.GetNamespace()), cmp.Compare(a.Object.GetName(), b.Object.GetName()))
	})
	return out
}
