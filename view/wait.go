package view

import (
	"context"
	"fmt"
	"slices"

	"github.com/kloop-dev/kloop/resource"
)

// Wait returns a snapshot at rev or later, or the context's error. It is for followed views; see WaitFor.
func (v *View) Wait(ctx context.Context, rev int64) (*Snapshot, error) {
	if err := v.Reach(ctx, rev); err != nil {
		return nil, err
	}
	return v.Snapshot(), nil
}

// Reach is Wait for those who need no snapshot, which costs those who write.
func (v *View) Reach(ctx context.Context, rev int64) error {
	if v.rev.Load() >= rev {
		return nil
	}
	return v.await(ctx, nil, rev)
}

// WaitFor returns a snapshot that shows the kind at rev or later, or the context's error.
func (v *View) WaitFor(ctx context.Context, k resource.Kind, rev int64) (*Snapshot, error) {
	if err := v.await(ctx, k, rev); err != nil {
		return nil, err
	}
	return v.Snapshot(), nil
}

// Written waits for the write of the kind that made revision rev and returns it: the writer's answer, in
// the very entry that watchers and readers share. ErrExpired when the history no longer holds it.
func (v *View) Written(ctx context.Context, k resource.Kind, rev int64) (Change, error) {
	if err := v.await(ctx, k, rev); err != nil {
		return Change{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if c, ok := v.table(k.Info().GR(), k).log.at(rev); ok {
		return c, nil
	}
	return Change{}, ErrExpired
}

func (v *View) await(ctx context.Context, k resource.Kind, rev int64) error {
	v.mu.Lock()
	w := &waiting{rev: rev}
	if k != nil {
		w.t = v.table(k.Info().GR(), k)
	}
	if w.reached(v.rev.Load()) {
		v.mu.Unlock()
		return nil
	}
	w.done = make(chan struct{})
	v.waiters.calls = append(v.waiters.calls, w)
	v.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		v.mu.Lock()
		v.waiters.calls = slices.DeleteFunc(v.waiters.calls, func(x *waiting) bool { return x == w })
		v.mu.Unlock()
		return fmt.Errorf("wait for revision %d (now %d): %w", rev, v.rev.Load(), ctx.Err())
	}
}
