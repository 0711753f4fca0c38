// Package etcd keeps the store in etcd: in a member that runs inside this process (Open) or in a cluster
// elsewhere (Dial). Both run the same code on etcd's client; they differ in who starts and stops the server.
//
// Keys are stored exactly as given, one key to a revision, and values untouched, so that a data directory or
// a cluster can be taken over from upstream and given back.
//
//	member.go   the member in this process: own data directory, every write synced to disk
//	direct.go   how it is written to
//	peers.go    members that reach each other
//	clients.go  etcd's own API, for whom this process is the cluster
//	members.go  who belongs to the cluster: join, list, remove
//	examine.go  what is looked at before a data directory is trusted
//	remote.go   the connection to a cluster
//	tail.go     watches of the member in this process
//	watch.go    watches of a cluster
//	lease.go    lifetimes: keys of similar expiry share a lease
//	upkeep.go   compaction, defragmentation, running out of space
//	snapshot.go backup and restore
package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kloop-dev/kloop/store"
)

// closePatience bounds how long Close waits for the calls in flight before it fails them.
const closePatience = 5 * time.Second

// Store implements store.Store.
type Store struct {
	client *clientv3.Client
	member *member // the member in this process; nil when the cluster is elsewhere
	log    *slog.Logger
	leases leases
	room   *room         // on the disk; nil when the cluster is elsewhere
	head   head          // newest revision that any answer has told of
	full   chan struct{} // a write found no space
	warm   chan struct{} // the database's pages have been touched; touched says so

	touched   atomic.Bool
	compacted atomic.Int64 // history before this is gone, or about to be; of a sole member only

	pace     pace                 // of writes
	progress atomic.Pointer[bool] // whether watches may be asked how far they are complete; nil: not known yet
	asking   atomic.Bool          // members for their versions

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	upkeep sync.WaitGroup

	mu       sync.RWMutex // orders enter and Close
	closed   bool
	inflight sync.WaitGroup

	fence fence
}

var _ store.Store = (*Store)(nil)

func newStore(client *clientv3.Client, m *member, log *slog.Logger) *Store {
	s := &Store{client: client, member: m, log: log, full: make(chan struct{}, 1), warm: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.leases.grant = s.grant
	s.fence.kv, s.fence.member, s.fence.peers, s.fence.newest = client, m, m, s.head.now
	if m != nil {
		s.room = newRoom(m.dir, !m.noSync, log)
	}
	return s
}

// Write implements store.Store.
func (s *Store) Write(ctx context.Context, w store.Write) (int64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.inflight.Done()
	if err := s.room.take(len(w.Value)); err != nil {
		return 0, err
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	switch {
	case w.Key == "":
		return 0, errors.New("the key is empty")
	case w.TTL < 0:
		return 0, fmt.Errorf("a lifetime of %v is negative", w.TTL)
	case w.Value == nil && w.Expect == 0:
		return 0, s.deleteMissing(ctx, w.Key)
	case w.Value != nil && w.TTL > 0:
		return s.writeMortal(ctx, w)
	}
	return s.commit(ctx, w, 0)
}

// writeMortal writes a key with a lifetime. The shared lease may be gone, when its keys went or the cluster
// was restored; then a new one does.
func (s *Store) writeMortal(ctx context.Context, w store.Write) (int64, error) {
	for again := true; ; again = false {
		lease, err := s.leases.lease(ctx, time.Now(), w.TTL)
		if err != nil {
			return 0, s.explain(ctx, "grant a lease", err)
		}
		rev, err := s.commit(ctx, w, lease)
		if !again || !errors.Is(err, errLeaseGone) {
			return rev, err
		}
		s.leases.forget(ctx, w.TTL, lease)
	}
}

// commit writes, with a lease unless it is 0, if the key has the expected revision.
func (s *Store) commit(ctx context.Context, w store.Write, lease clientv3.LeaseID) (int64, error) {
	began := time.Now()
	resp, err := s.fence.transact(ctx, w, lease)
	if err != nil {
		return 0, s.explain(ctx, "", err)
	}
	s.pace.note(time.Since(began))
	s.head.raise(resp.Header.Revision)
	s.uses()
	if !resp.Succeeded {
		return 0, conflict(resp.Responses[0].GetResponseRange().Kvs, resp.Header.Revision)
	}
	return resp.Header.Revision, nil
}

// deleteMissing answers the delete of a key that is expected to be missing: always a conflict.
func (s *Store) deleteMissing(ctx context.Context, key string) error {
	resp, err := s.client.Get(ctx, key)
	if err != nil {
		return s.explain(ctx, "", err)
	}
	return conflict(resp.Kvs, resp.Header.Revision)
}

func conflict(kvs []*mvccpb.KeyValue, at int64) error {
	e := &store.ConflictError{At: at}
	if len(kvs) > 0 {
		e.Current = toKV(kvs[0])
	}
	return e
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (*store.KV, int64, error) {
	if err := s.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer s.inflight.Done()
	ctx, cancel := s.bound(ctx)
	defer cancel()
	resp, err := s.client.Get(ctx, key, s.fresh()...)
	if err != nil {
		return nil, 0, s.explain(ctx, "get "+key, err)
	}
	s.head.raise(resp.Header.Revision)
	if len(resp.Kvs) == 0 {
		return nil, resp.Header.Revision, nil
	}
	return toKV(resp.Kvs[0]), resp.Header.Revision, nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int, rev int64) (store.Page, error) {
	if err := s.enter(ctx); err != nil {
		return store.Page{}, err
	}
	defer s.inflight.Done()
	ctx, cancel := s.bound(ctx)
	defer cancel()
	start, end := span(prefix)
	if after >= prefix && after != "" {
		start = after + "\x00"
	}
	if end != "\x00" && start >= end {
		start = end // nothing sorts there; still asked, for the revision's sake
	}
	opts := append(s.fresh(), clientv3.WithRange(end), clientv3.WithLimit(int64(limit)), clientv3.WithRev(rev))
	resp, err := s.client.Get(ctx, start, opts...)
	if err != nil {
		return store.Page{}, s.explain(ctx, fmt.Sprintf("list %s at %d", prefix, rev), err)
	}
	s.head.raise(resp.Header.Revision)
	s.uses()
	if rev == 0 {
		rev = resp.Header.Revision
	}
	page := store.Page{Rev: rev, KVs: make([]store.KV, len(resp.Kvs)), More: resp.More, Left: resp.Count - int64(len(resp.Kvs))}
	for i, kv := range resp.Kvs {
		page.KVs[i] = *toKV(kv)
	}
	return page, nil
}

// span is the range of the keys with a prefix, as etcd wants it. An end of "\x00" means no end.
func span(prefix string) (start, end string) {
	if prefix == "" {
		return "\x00", "\x00"
	}
	return prefix, clientv3.GetPrefixRangeEnd(prefix)
}

// Sole says that nobody but this process can write to the store.
func (s *Store) Sole() bool { return s.member != nil && !s.member.shared }

// fresh are the options of a read that sees every acknowledged write. The only member of a cluster that
// nobody else can reach has applied what was acknowledged: it needs no round of consensus to be sure.
func (s *Store) fresh() []clientv3.OpOption {
	if s.Sole() {
		return []clientv3.OpOption{clientv3.WithSerializable()}
	}
	return nil
}

// Revision implements store.Store. With the only member in this process it costs nothing: every write that is
// acknowledged is known here.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.inflight.Done()
	if s.Sole() {
		return s.head.now(), nil
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	resp, err := s.client.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return 0, s.explain(ctx, "ask for the revision", err)
	}
	s.head.raise(resp.Header.Revision)
	return resp.Header.Revision, nil
}

// Compact implements store.Store. Compacting what is compacted already does nothing.
func (s *Store) Compact(ctx context.Context, rev int64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.inflight.Done()
	return s.compact(ctx, rev)
}

func (s *Store) compact(ctx context.Context, rev int64, opts ...clientv3.CompactOption) error {
	what := fmt.Sprintf("compact up to %d", rev)
	if s.Sole() {
		if newest := s.head.now(); rev > newest {
			return fmt.Errorf("%s: %w: it is %d", what, store.ErrFuture, newest)
		}
		for old := s.compacted.Load(); rev > old && !s.compacted.CompareAndSwap(old, rev); old = s.compacted.Load() {
		}
	}
	_, err := s.client.Compact(ctx, rev, opts...)
	err = s.explain(ctx, what, err)
	if errors.Is(err, store.ErrCompacted) {
		return nil
	}
	return err
}

// Close implements store.Store. Calls that are still in flight after five seconds fail.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return store.ErrClosed
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.upkeep.Wait()
	settled := make(chan struct{})
	go func() { s.inflight.Wait(); close(settled) }()
	select {
	case <-settled:
	case <-time.After(closePatience):
	}
	err := s.client.Close()
	if s.member != nil {
		s.member.stop()
		return nil // the client has no connection that could fail to close
	}
	if err != nil {
		return fmt.Errorf("close the connection to etcd: %w", err)
	}
	return nil
}

// enter counts a call in, unless the store is closed or the context has ended. The caller counts it out.
func (s *Store) enter(ctx context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.inflight.Add(1)
	return nil
}

// callPatience bounds a call of a store that others keep too: a cluster without a leader, or out of reach, may never
// answer. Etcd itself gives up after seven seconds.
const callPatience = 10 * time.Second

func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Sole() {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callPatience)
}

func toKV(kv *mvccpb.KeyValue) *store.KV {
	return &store.KV{Key: string(kv.Key), Value: kv.Value, CreateRev: kv.CreateRevision, ModRev: kv.ModRevision}
}
