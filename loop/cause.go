package loop

import (
	"context"
	"slices"

	"github.com/kloop-dev/kloop/trail"
)

// because returns a context whose writes tell that this reconcile made them, and what woke it.
func (r *runner[T]) because(ctx context.Context, e *entry) context.Context {
	c := &trail.Cause{Loop: r.Name, Key: trail.RefOf(e.key.Kind, e.key.Namespace, e.key.Name)}
	for _, x := range r.q.causes(e) {
		if x.Kind != nil && x.Rev > 0 {
			ref := trail.RefOf(x.Kind, x.Namespace, x.Name)
			ref.Rev = x.Rev
			c.Woken = append(c.Woken, ref)
		}
	}
	return trail.With(ctx, c)
}

// causes returns what woke the entry, the newest last.
func (q *queue) causes(e *entry) []Cause {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(e.rec.Causes)
}
