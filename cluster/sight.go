package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

// unseen stands in the place of what the reader may not get.
const unseen = "something that you may not see"

// A sight holds the gaps and fights of a cluster that one reader may see: those of objects that it may get. It is for one
// request; nil sees everything.
type sight struct {
	authorize auth.Authorizer
	user      *auth.User
	known     map[convergence.Object]bool
}

func (o *lookout) sight(r *server.Request) *sight {
	ofOthers := r.Kind == resource.Kind(convergence.Gaps) || r.Kind == resource.Kind(convergence.Fights)
	if r.User == nil || r.User.In(auth.GroupMasters) || !ofOthers {
		return nil
	}
	return &sight{authorize: o.authorize, user: r.User, known: map[convergence.Object]bool{}}
}

// sees says that the reader may get the object: all objects of its kind in the namespace, or this one by name.
func (s *sight) sees(ctx context.Context, o convergence.Object) bool {
	for _, name := range []string{"", o.Name} {
		key := convergence.Object{Resource: o.Resource, Namespace: o.Namespace, Name: name}
		may, ok := s.known[key]
		if !ok {
			gr := schema.ParseGroupResource(o.Resource)
			d, _, err := s.authorize.Authorize(ctx, &auth.Attributes{User: s.user, Verb: "get", Group: gr.Group, Version: "*",
				Resource: gr.Resource, Namespace: o.Namespace, Name: name})
			may = err == nil && d == auth.Allow
			s.known[key] = may
		}
		if may {
			return true
		}
	}
	return false
}

// shown is an entry as the reader may see it; nil: not at all.
func (s *sight) shown(ctx context.Context, k resource.Kind, e *view.Entry) *view.Entry {
	if s == nil || e == nil {
		return e
	}
	switch x := e.Object.(type) {
	case *convergence.Fight:
		if !s.sees(ctx, x.Object) {
			return nil
		}
	case *convergence.Gap:
		if !s.sees(ctx, x.Object) {
			return nil
		}
		if g := s.less(ctx, x); g != nil {
			return view.NewEntry(k, e.Rev, g)
		}
	}
	return e
}

// less is the gap as the reader may know it; nil: all of it.
func (s *sight) less(ctx context.Context, g *convergence.Gap) *convergence.Gap {
	m := s.masked(ctx, g)
	if u := s.unhinted(ctx, cmp.Or(m, g)); u != nil {
		return u
	}
	return m
}

// masked is the gap without what lies in other namespaces that the reader may not look into; nil: there is no such thing. What
// is in its own namespace, or in none, is named by the object itself, which the reader sees.
func (s *sight) masked(ctx context.Context, g *convergence.Gap) *convergence.Gap {
	near := func(o convergence.Object) bool { return o.Namespace == "" || o.Namespace == g.Object.Namespace }
	open := map[string]bool{g.Object.Name: true} // names that the reader sees anyhow: a node's Lease has that of the node
	for i := range g.Chain {
		if o := g.Chain[i].Object; near(o) {
			open[o.Name] = true
		}
	}
	var secret []string
	hide := func(o convergence.Object) bool {
		if near(o) || s.sees(ctx, o) {
			return false
		}
		if secret = append(secret, o.Namespace); !open[o.Name] {
			secret = append(secret, o.Name)
		}
		return true
	}
	next := resource.Clone(g)
	for i := range next.Chain {
		if l := &next.Chain[i]; hide(l.Object) {
			*l = convergence.Link{Depth: l.Depth, Object: convergence.Object{Name: unseen}, Cause: l.Cause, State: l.State, Others: l.Others}
		}
	}
	if w := next.Waits; w != nil && w.On != nil && hide(*w.On) {
		next.Waits = &convergence.Wait{Type: w.Type, Name: unseen}
	}
	if len(secret) == 0 {
		return nil
	}
	texts := []*string{&next.Verdict, &next.Says, &next.Detail, &next.Want, &next.Have, &next.Because, &next.Owner,
		&next.Next.Who, &next.Next.What}
	for i := range next.Advice {
		texts = append(texts, &next.Advice[i])
	}
	for i := range next.Chain {
		texts = append(texts, &next.Chain[i].Says, &next.Chain[i].Owner)
		if f := next.Chain[i].Error; f != nil {
			texts = append(texts, &f.Message)
		}
	}
	if next.Error != nil {
		texts = append(texts, &next.Error.Message)
	}
	for _, t := range texts {
		if slices.ContainsFunc(secret, func(name string) bool { return mentions(*t, name) }) {
			*t = unseen
		}
	}
	if next.Verdict == unseen && next.Says != unseen {
		next.Verdict = next.Object.Short() + " " + next.Says + " because of " + unseen
	}
	next.Advise(next.Advice)
	return next
}

// unhinted takes away advice that names an object like the one that is waited for, or a key in it, unless the reader may read all
// objects of that kind there; nil: nothing has to go.
func (s *sight) unhinted(ctx context.Context, g *convergence.Gap) *convergence.Gap {
	kept := slices.DeleteFunc(slices.Clone(g.Advice), func(a string) bool {
		if !strings.HasPrefix(a, converge.Near) {
			return false
		}
		w := g.Waits
		return w == nil || w.On == nil || !strings.Contains(a, strings.ToLower(w.On.Kind)+"/") ||
			!s.sees(ctx, convergence.Object{Resource: w.On.Resource, Namespace: w.On.Namespace})
	})
	if len(kept) == len(g.Advice) {
		return nil
	}
	next := resource.Clone(g)
	next.Advise(kept)
	return next
}

// mentions says that a name stands in a text as a word.
func mentions(text, name string) bool {
	inside := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' }
	for rest := text; ; {
		before, after, ok := strings.Cut(rest, name)
		if !ok || name == "" {
			return false
		}
		last, first := []rune(before), []rune(after)
		if (len(last) == 0 || !inside(last[len(last)-1])) && (len(first) == 0 || !inside(first[0])) {
			return true
		}
		rest = after
	}
}

// List implements server.Operations: what the reader may not know is left out.
func (o *lookout) List(ctx context.Context, r *server.Request, opts *metav1.ListOptions) (*server.List, error) {
	l, err := o.MemoryKinds.List(ctx, r, opts)
	s := o.sight(r)
	if err != nil || s == nil {
		return l, err
	}
	out := &server.List{Revision: l.Revision, Continue: l.Continue} // how many remain would count what is left out
	for _, e := range l.Entries {
		if e = s.shown(ctx, r.Kind, e); e != nil {
			out.Entries = append(out.Entries, e)
		}
	}
	return out, nil
}

// Watch implements server.Operations: what the reader may not know does not happen.
func (o *lookout) Watch(ctx context.Context, r *server.Request, opts *metav1.ListOptions, f func([]server.Event) error) error {
	if o.sight(r) == nil {
		return o.MemoryKinds.Watch(ctx, r, opts, f)
	}
	q := *r
	q.Offer = nil // it would tell all
	return o.MemoryKinds.Watch(ctx, &q, opts, func(batch []server.Event) error {
		s := o.sight(r) // anew: rights change
		var out []server.Event
		for _, e := range batch {
			if e.Entry != nil {
				if e.Entry = s.shown(ctx, r.Kind, e.Entry); e.Entry == nil {
					continue
				}
			}
			out = append(out, e)
		}
		return f(out)
	})
}
