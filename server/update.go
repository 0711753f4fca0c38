package server

import (
	"context"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// Update implements Operations. An object with a resourceVersion replaces only that very state; one without
// replaces whatever is there.
func (s *Server) Update(ctx context.Context, r *Request, obj resource.Object) (*view.Entry, bool, error) {
	if r.Sub == "scale" {
		e, err := s.updateScale(ctx, r, obj)
		return e, false, err
	}
	if err := checkNamespace(r, obj); err != nil {
		return nil, false, err
	}
	if err := named(r, obj); err != nil {
		return nil, false, err
	}
	hub, err := r.ToHub(ctx, obj)
	if err != nil { // of an object that there is
		return s.modify(ctx, r, &change{next: func(context.Context, *view.Entry) (resource.Object, error) { return nil, err }})
	}
	singleOwners(r, hub, "")
	u := &replacement{r: r, obj: hub}
	if rev, err := parseRevision(hub.GetResourceVersion()); err == nil && rev > 0 {
		u.rev = formatRevision(rev)
	}
	c := &change{create: r.Kind.Info().CreateOnUpdate && r.Sub == "", next: u.next}
	if c.create {
		c.uid = hub.GetUID()
	}
	return s.modify(ctx, r, c)
}

// A replacement is the object that an update puts in an object's place.
type replacement struct {
	r    *Request
	obj  resource.Object
	rev  string // that it replaces; "" for any
	used bool
}

// next returns a copy to be changed at every try, but for an update of one very revision the object itself:
// when the first try got as far as the store, which makes it the view's, a second one can't succeed.
func (u *replacement) next(_ context.Context, cur *view.Entry) (resource.Object, error) {
	if u.used && (cur == nil || formatRevision(cur.Rev) != u.rev) {
		return nil, conflict(u.r)
	}
	if err := sameUID(u.r, u.obj, cur); err != nil {
		return nil, err
	}
	if u.rev == "" {
		return resource.Clone(u.obj), nil
	}
	u.used = true
	u.obj.SetResourceVersion(u.rev)
	return u.obj, nil
}
