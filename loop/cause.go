package loop

import (
	"context"

	"github.com/kloop-dev/kloop/trail"
)

// waking holds the causes of a reconcile, as the queue knew it when the reconcile began.
type waking struct {
	loop string
	key  Key
	by   [maxCauses]Cause
	n    int
}

// because returns a context whose writes tell that this reconcile made them, and what woke it, where somebody remembers
// that. Most reconciles write nothing, so the telling is put together by the first write.
func (r *runner[T]) because(ctx context.Context, e *entry) context.Context {
	if !r.env.Trail {
		return ctx
	}
	w := &waking{loop: r.Name, key: e.key}
	r.q.causes(e, w)
	return trail.WithMade(ctx, w.cause)
}

func (w *waking) cause() *trail.Cause {
	c := &trail.Cause{Loop: w.loop, Key: trail.RefOf(w.key.Kind, w.key.Namespace, w.key.Name)}
	for _, x := range w.by[:w.n] {
		if x.Kind != nil && x.Rev > 0 {
			ref := trail.RefOf(x.Kind, x.Namespace, x.Name)
			ref.Rev = x.Rev
			c.Woken = append(c.Woken, ref)
		}
	}
	return c
}

// causes notes what woke the entry, the newest last.
func (q *queue) causes(e *entry, w *waking) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.n = copy(w.by[:], e.rec.Causes)
}
