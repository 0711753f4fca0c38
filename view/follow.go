package view

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kloop-dev/kloop/store"
)

// prefix begins the keys of all objects of a cluster.
const prefix = "/registry/"

const pageSize = 1000

// How long to wait before asking a store again that could not answer.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
)

// Follow feeds the view from the store until ctx ends (nil) or the store is closed (an error). It calls ready
// once, when the view holds all. When the store can't answer it tries again for as long as it takes; when
// the store's history is gone it lists again and tells cursors of the difference.
func (v *View) Follow(ctx context.Context, st store.Store, ready func()) error {
	pause, f := firstPause, follower{v: v, st: st, ready: ready}
	for {
		before := v.rev.Load()
		err := f.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrClosed):
			return fmt.Errorf("follow the store: %w", err)
		case errors.Is(err, store.ErrCompacted), errors.Is(err, store.ErrFuture):
			f.listed = false
		}
		if v.rev.Load() != before {
			pause = firstPause
		}
		slog.Warn("view lost the store's watch", "rev", v.rev.Load(), "err", err, "again", pause)
		if !sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, maxPause)
	}
}

// A follower is one call of Follow.
type follower struct {
	v      *View
	st     store.Store
	ready  func() // nil once it is called
	listed bool   // the view holds what was listed, and the watch goes on from there
}

// follow lists, unless that is done, and watches until the watch fails.
func (f *follower) follow(ctx context.Context) error {
	if !f.listed {
		if err := f.load(ctx); err != nil {
			return fmt.Errorf("list the store: %w", err)
		}
		f.listed = true
		if f.ready != nil {
			f.ready()
			f.ready = nil
		}
	}
	if err := f.st.Watch(ctx, prefix, f.v.rev.Load(), f.v.ingest); err != nil {
		return fmt.Errorf("watch the store: %w", err)
	}
	return errors.New("watch the store: it ended without an error")
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// load makes the view hold what the store holds now.
func (f *follower) load(ctx context.Context) error {
	v := f.v
	v.feed.Lock()
	defer v.feed.Unlock()
	for _, k := range v.source.All() {
		if _, known := v.kinds.GR(k.Info().GR()); known {
			continue // Adopt replaces declarations
		}
		if err := v.kinds.Put(k); err != nil {
			return err
		}
	}
	var all []write
	rev, after := int64(0), ""
	for {
		page, err := f.st.List(ctx, prefix, after, pageSize, rev)
		if err != nil {
			return err
		}
		all = append(all, v.decodeAll(page.KVs)...)
		rev = page.Rev
		if !page.More || len(page.KVs) == 0 {
			break
		}
		after = page.KVs[len(page.KVs)-1].Key
	}
	v.reset(rev, all)
	return nil
}
