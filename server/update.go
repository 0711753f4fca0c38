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
	if err := placed(r, obj); err != nil {
		return nil, false, err
	}
	if err := named(r, obj); err != nil {
		return nil, false, err
	}
	hub, err := r.toHub(ctx, obj)
	if err != nil {
		return nil, false, err
	}
	singleOwners(r, hub)
	rev := hub.GetResourceVersion()
	return s.modify(ctx, r, &change{
		create: r.Kind.Info().CreateOnUpdate && r.Sub == "",
		next: func(_ context.Context, cur *view.Entry) (resource.Object, error) {
			if err := sameUID(r, hub, cur); err != nil {
				return nil, err
			}
			if rev == "" || cur == nil {
				return resource.Clone(hub), nil
			}
			hub.SetResourceVersion(rev) // a second try finds another state, and fails, before it does anything to hub
			return hub, nil
		},
	})
}
