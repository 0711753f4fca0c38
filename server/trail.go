package server

import (
	"context"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/trail"
)

// A Trail notes every write that was stored, and its cause. It must be quick and must not block.
type Trail interface{ Note(c *trail.Change) }

// note tells the trail of a write of the request's; old is nil for what was created, obj for what is gone.
func (s *Core) note(ctx context.Context, r *Request, old, obj resource.Object, rev int64) {
	if s.Trail == nil {
		return
	}
	c := trail.Change{Kind: r.Kind, Old: old, New: obj, Rev: rev, Manager: r.Manager, Agent: r.Agent, Cause: trail.From(ctx)}
	if r.User != nil {
		c.User = r.User.Name
	}
	s.Trail.Note(&c)
}
