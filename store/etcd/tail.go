package etcd

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"

	"github.com/kloop-dev/kloop/store"
)

// A watch of the member in this process reads the database, in which etcd keeps all changes by revision, as
// one reads a growing file: from where it stands to the newest revision that was acknowledged. It stores
// nothing, so a slow reader costs nobody anything.
//
// Etcd's own watches keep 128 writes for a reader. One that falls further behind, which under many writers
// takes a millisecond, is sent on at most 1000 writes every 100 ms: as long as there are more writes than
// that it never catches up, and we measured it a second behind.

const (
	maxRevisions  = 256     // that are read at once: the database can't be written to meanwhile
	maxBatchBytes = 4 << 20 // of values in a batch, about
)

// The head is the newest revision that is known, and wakes those who wait for a newer one.
type head struct {
	mu      sync.Mutex
	rev     int64
	changed chan struct{} // closed when rev grows; nil when nobody waits
}

func (h *head) raise(rev int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if rev <= h.rev {
		return
	}
	h.rev = rev
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// get returns the revision, and a channel that is closed when there is a newer one.
func (h *head) get() (int64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.rev, h.changed
}

func (h *head) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rev
}

// follow is Watch on the member in this process.
func (s *Store) follow(ctx context.Context, prefix string, after int64, f func(store.Batch) error) error {
	after = max(after, 0)
	for ctx.Err() == nil {
		newest, changed := s.head.get()
		if after >= newest {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		if err := s.enter(ctx); err != nil {
			return fmt.Errorf("watch %s: %w", prefix, err)
		}
		batch, err := s.member.changes(prefix, after, newest)
		s.inflight.Done()
		if err != nil {
			return fmt.Errorf("watch %s: %w", prefix, err)
		}
		// Asked after reading: a compaction takes effect here before it does in the database.
		if oldest := s.compacted.Load(); after < oldest {
			return fmt.Errorf("watch %s after %d: %w: oldest is %d", prefix, after, store.ErrCompacted, oldest)
		}
		if err := f(batch); err != nil {
			return err
		}
		after = batch.Rev
	}
	return nil
}

// changes returns those of the revisions after `after` up to newest, or as many of the first of them as
// make a batch.
func (m *member) changes(prefix string, after, newest int64) (store.Batch, error) {
	newest = min(newest, after+maxRevisions)
	batch, size := store.Batch{Rev: newest}, 0
	tx := m.lockDatabase()
	defer tx.RUnlock()
	if oldest := m.oldest(tx); after < oldest {
		return batch, fmt.Errorf("%w: oldest is %d", store.ErrCompacted, oldest)
	}
	keys, values := tx.UnsafeRange(schema.Key, revisionKey(after+1), revisionKey(newest+1), 0)
	for i, key := range keys {
		rev := int64(binary.BigEndian.Uint64(key))
		if n := len(batch.Events); size > maxBatchBytes && rev > batch.Events[n-1].Rev {
			batch.Rev = batch.Events[n-1].Rev
			break
		}
		var kv mvccpb.KeyValue
		if err := proto.Unmarshal(values[i], &kv); err != nil {
			return batch, fmt.Errorf("revision %d is broken: %w", rev, err)
		}
		event := store.Event{Rev: rev, Key: string(kv.Key)}
		if !strings.HasPrefix(event.Key, prefix) {
			continue
		}
		if !mvcc.IsTombstone(key) {
			event.KV = &store.KV{Key: event.Key, Value: kv.Value, CreateRev: kv.CreateRevision, ModRev: kv.ModRevision}
		}
		batch.Events = append(batch.Events, event)
		size += len(kv.Value)
	}
	return batch, nil
}

// lockDatabase begins a read. A member that was away for long gets the whole database from another one: what was read
// so far is then closed, which waits for reads that have begun.
func (m *member) lockDatabase() backend.ReadTx {
	for {
		db := m.server.Backend()
		tx := db.ReadTx()
		tx.RLock()
		if !m.shared || m.server.Backend() == db {
			return tx
		}
		tx.RUnlock()
	}
}

// oldest is the revision before which history may be gone, when others compact it too.
func (m *member) oldest(tx backend.ReadTx) int64 {
	if !m.shared {
		return 0
	}
	_, values := tx.UnsafeRange(schema.Meta, schema.ScheduledCompactKeyName, nil, 0)
	if len(values) == 0 || len(values[0]) < 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(values[0]))
}

// revisionKey is the first key that the database can have for a revision.
func revisionKey(rev int64) []byte {
	return mvcc.RevToBytes(mvcc.Revision{Main: rev}, mvcc.NewRevBytes())
}

// hearOthers learns of the writes that this process did not make: the deletes of keys whose lease ended and, in a
// cluster, what other servers write. What it hears is only that there is something: the tail reads what. So it
// doesn't matter that etcd's watch may fall behind; when it ends, because it fell behind too far, it begins anew.
func (s *Store) hearOthers() {
	kv := s.member.server.Watchable()
	for s.ctx.Err() == nil {
		if err := s.hear(kv); err != nil {
			s.log.Error("watch for the writes of others", "err", err)
			return
		}
		s.await(kv, kv.Rev())
	}
}

func (s *Store) hear(kv mvcc.WatchableKV) error {
	stream := kv.NewWatchStream()
	defer stream.Close()
	var filters []mvcc.FilterFunc
	if s.Sole() {
		filters = append(filters, func(e *mvccpb.Event) bool { return e.Type == mvccpb.Event_PUT })
	}
	if _, err := stream.Watch(s.ctx, 0, []byte{0}, []byte{}, s.head.now()+1, filters...); err != nil {
		return err
	}
	for {
		select {
		case <-s.ctx.Done():
			return nil
		case told := <-stream.Chan():
			if told.CompactRevision != 0 {
				return nil
			}
			s.await(kv, told.Revision)
		}
	}
}

// await raises the head to a revision when it can be read: etcd tells its watches just before.
func (s *Store) await(kv mvcc.WatchableKV, rev int64) {
	for s.head.now() < rev && s.ctx.Err() == nil {
		readable := kv.Rev()
		s.head.raise(readable)
		if readable < rev {
			time.Sleep(time.Millisecond)
		}
	}
}
