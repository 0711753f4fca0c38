// Package memory keeps a store in memory: for tests and throw-away clusters. It is fast, has no disk and
// forgets everything when it is closed.
//
// It follows the contract of package store to the letter, durability aside. Every write keeps the versions
// it replaces for a while, so that older revisions can be listed and watched from; the history is bounded by
// number, bytes and age, and its oldest part is forgotten as new writes come in. A store starts no goroutine
// and its only timer is the one of the next expiry, so it works inside a testing/synctest bubble.
package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/btree"

	"github.com/kloop-dev/kloop/store"
)

// maxRequest is the size, in bytes, of the largest key and value together. It is the limit of an etcd
// server's requests, so that what fits here fits there.
const maxRequest = 3 << 19

// Store implements store.Store. It keeps the Value of a Write without copying it: the caller must not change
// it afterwards.
type Store struct {
	mu      sync.RWMutex
	rev     int64
	items   *btree.BTreeG[*item]
	history history
	expiry  expiry
	changed chan struct{} // closed and replaced by every write
	done    chan struct{} // closed by Close
}

var _ store.Store = (*Store)(nil)

// New returns an empty store. Like a new etcd it is at revision 1.
func New() *Store { return newStore(1, defaultLimits) }

// NewSmall is New at another first revision and with a history of at most `keep` bytes. It is for a store that takes
// the place of one that went: whoever holds a revision of the old one must find it too old, not in the future.
func NewSmall(rev int64, keep int) *Store {
	return newStore(rev, limits{changes: defaultLimits.changes / 8, bytes: keep, age: defaultLimits.age})
}

func newStore(rev int64, l limits) *Store {
	return &Store{
		rev:     rev,
		items:   btree.NewG(32, func(a, b *item) bool { return a.key < b.key }),
		history: history{compacted: rev, limits: l},
		changed: make(chan struct{}),
		done:    make(chan struct{}),
	}
}

// Write implements store.Store.
func (s *Store) Write(ctx context.Context, w store.Write) (int64, error) {
	if err := check(w); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	it, _ := s.items.Get(&item{key: w.Key})
	prev := it.current()
	if modRev(prev) != w.Expect || prev == nil && w.Value == nil {
		return 0, &store.ConflictError{Current: prev, At: s.rev}
	}
	if it == nil {
		it = &item{key: w.Key}
		s.items.ReplaceOrInsert(it)
	}
	var kv *store.KV
	if w.Value != nil {
		kv = &store.KV{Key: it.key, Value: w.Value, CreateRev: s.rev + 1, ModRev: s.rev + 1}
		if prev != nil {
			kv.CreateRev = prev.CreateRev
		}
	}
	s.put(it, prev, kv)
	if kv != nil && w.TTL > 0 {
		s.expiry.add(deadline{time.Now().Add(w.TTL), it.key, s.rev}, s.expire)
	}
	return s.rev, nil
}

// check refuses the writes that no store can take.
func check(w store.Write) error {
	switch {
	case w.Key == "":
		return errors.New("the key is empty")
	case w.TTL < 0:
		return fmt.Errorf("a lifetime of %v is negative", w.TTL)
	case len(w.Key)+len(w.Value) > maxRequest:
		return fmt.Errorf("%w: %d bytes", store.ErrTooLarge, len(w.Value))
	}
	return nil
}

// put makes kv (nil: nothing) the state of the item at the next revision. The lock is held.
func (s *Store) put(it *item, prev, kv *store.KV) {
	s.rev++
	it.versions = append(it.versions, version{s.rev, kv})
	s.history.add(change{it: it, prev: prev, kv: kv, at: time.Now()})
	if rev := s.history.excess(); rev > 0 {
		s.compact(rev)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (*store.KV, int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, 0, err
	}
	it, _ := s.items.Get(&item{key: key})
	return it.current(), s.rev, nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int, rev int64) (store.Page, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return store.Page{}, err
	}
	switch {
	case rev == 0:
		rev = s.rev
	case rev > s.rev:
		return store.Page{}, fmt.Errorf("list %s at %d: %w: it is %d", prefix, rev, store.ErrFuture, s.rev)
	case rev < s.history.compacted:
		return store.Page{}, s.tooOld("list "+prefix, rev)
	}
	page := store.Page{Rev: rev}
	s.items.AscendGreaterOrEqual(&item{key: max(prefix, after)}, func(it *item) bool {
		if !strings.HasPrefix(it.key, prefix) {
			return false
		}
		kv := it.at(rev)
		switch {
		case kv == nil || it.key == after:
		case limit > 0 && len(page.KVs) == limit:
			page.More = true
			page.Left++
		default:
			page.KVs = append(page.KVs, *kv)
		}
		return true
	})
	return page, nil
}

// Revision implements store.Store.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.rev, s.usable(ctx)
}

// Compact implements store.Store. Compacting what is compacted already does nothing.
func (s *Store) Compact(ctx context.Context, rev int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	if rev > s.rev {
		return fmt.Errorf("compact up to %d: %w: it is %d", rev, store.ErrFuture, s.rev)
	}
	s.compact(rev)
	return nil
}

// Close implements store.Store. It ends the watches too.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return err
	}
	close(s.done)
	s.expiry.stop()
	return nil
}

// expire deletes the keys whose time is over, each in a revision of its own.
func (s *Store) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open() != nil {
		return
	}
	for _, d := range s.expiry.due(time.Now(), s.expire) {
		it, ok := s.items.Get(&item{key: d.key})
		if kv := it.current(); ok && modRev(kv) == d.rev {
			s.put(it, kv, nil)
		}
	}
}

// usable tells why a call can't be answered, if so.
func (s *Store) usable(ctx context.Context) error {
	if err := s.open(); err != nil {
		return err
	}
	return ctx.Err()
}

func (s *Store) open() error {
	select {
	case <-s.done:
		return store.ErrClosed
	default:
		return nil
	}
}

func (s *Store) tooOld(what string, rev int64) error {
	return fmt.Errorf("%s at %d: %w: oldest is %d", what, rev, store.ErrCompacted, s.history.compacted)
}
