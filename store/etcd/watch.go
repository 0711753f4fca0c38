package etcd

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kloop-dev/kloop/store"
)

const (
	// quiet is the time for which a watch without events waits before it asks how far it is complete.
	quiet = time.Second

	// maxEvents ends the coalescing of what is available into one batch.
	maxEvents = 1024

	// registry is the prefix of every key that belongs to a cluster.
	registry = "/registry/"
)

// Watch implements store.Store. Events don't carry Prev: etcd would have to read every key's old value.
func (s *Store) Watch(ctx context.Context, prefix string, after int64, f func(store.Batch) error) error {
	if s.ctx.Err() != nil {
		return store.ErrClosed
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	err := s.watch(inner, prefix, after, f)
	switch {
	case ctx.Err() != nil:
		return nil
	case s.ctx.Err() != nil:
		return fmt.Errorf("watch %s: %w", prefix, store.ErrClosed)
	}
	return err
}

func (s *Store) watch(ctx context.Context, prefix string, after int64, f func(store.Batch) error) error {
	if s.member != nil {
		return s.follow(ctx, prefix, after, f)
	}
	w := &watch{store: s, ctx: clientv3.WithRequireLeader(ctx), prefix: prefix, rev: after, f: f}
	return w.run()
}

// A watch of a cluster is complete up to rev. What f has not taken yet waits in etcd's client.
type watch struct {
	store  *Store
	ctx    context.Context
	prefix string
	rev    int64
	f      func(store.Batch) error
}

func (w *watch) run() error {
	start, end := span(w.prefix)
	answers := w.store.client.Watch(w.ctx, start, clientv3.WithRange(end), clientv3.WithRev(max(w.rev, 0)+1))
	pause := time.NewTicker(quiet)
	defer pause.Stop()
	for {
		select {
		case answer, ok := <-answers:
			if !ok {
				return fmt.Errorf("watch %s: etcd ended it", w.prefix)
			}
			if err := w.deliver(answer, answers); err != nil {
				return err
			}
		case <-pause.C:
			if !w.behind() || !w.store.tellsProgress() {
				continue
			}
			if err := w.store.client.RequestProgress(w.ctx); err != nil {
				return w.store.explain(w.ctx, "watch "+w.prefix, err)
			}
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
}

// behind reports whether the revision has, or may have, moved for other keys' sake. A watch of the whole
// registry sees every write there is, so that it need not ask a cluster that other servers write to as well.
func (w *watch) behind() bool {
	return w.store.head.now() > w.rev || !strings.HasPrefix(registry, w.prefix)
}

// deliver hands an answer to f, together with those that have arrived behind it. Etcd never splits a
// revision between answers.
func (w *watch) deliver(answer clientv3.WatchResponse, more clientv3.WatchChan) error {
	batch := store.Batch{Rev: w.rev}
	for {
		if err := answer.Err(); err != nil {
			return w.store.explain(w.ctx, fmt.Sprintf("watch %s after %d", w.prefix, w.rev), err)
		}
		w.add(&batch, answer)
		if len(batch.Events) >= maxEvents {
			break
		}
		select {
		case next, ok := <-more:
			if ok {
				answer = next
				continue
			}
		default:
		}
		break
	}
	if batch.Rev <= w.rev {
		return nil
	}
	w.rev = batch.Rev
	return w.f(batch)
}

// add appends the events of an answer. Without events it tells how far the watch is complete.
func (w *watch) add(batch *store.Batch, answer clientv3.WatchResponse) {
	if answer.IsProgressNotify() {
		batch.Rev = max(batch.Rev, answer.Header.Revision)
		return
	}
	for _, e := range answer.Events {
		event := store.Event{Rev: e.Kv.ModRevision, Key: string(e.Kv.Key)}
		if e.Type == clientv3.EventTypePut {
			event.KV = toKV(e.Kv)
			event.Key = event.KV.Key
		}
		batch.Events = append(batch.Events, event)
		batch.Rev = event.Rev
	}
	w.store.head.raise(batch.Rev)
}
