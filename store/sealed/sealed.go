// Package sealed encrypts values on their way into a store and decrypts them on their way out.
//
// Keys, revisions and the order of writes are those of the store below. The form of sealed values is that of
// upstream's encryption at rest, so that an etcd can be taken over with its EncryptionConfiguration and given back.
//
//	config.go   the EncryptionConfiguration file: which keys are sealed by what
//	ciphers.go  the forms of sealed values
//	kms.go      those whose key a plugin keeps
package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/store"
)

// Store is a store whose values are sealed by rules. Its methods are safe for concurrent use.
type Store struct {
	store.Store
	rules atomic.Pointer[Rules]
	parse func(data []byte) (*Rules, error)

	mu      sync.Mutex
	changed chan struct{} // closed when the rules change, or a plugin is back
	waits   map[*kms]bool // plugins that could not open a value, until they are well
	pause   time.Duration // of the next of them
	told    time.Time     // when the last one was well again
	done    chan struct{} // closed by Close
	end     sync.Once
}

var _ store.Store = (*Store)(nil)

// New returns a store that seals what it writes to below.
func New(below store.Store, r *Rules) *Store {
	s := &Store{Store: below, changed: make(chan struct{}), waits: map[*kms]bool{}, done: make(chan struct{})}
	s.rules.Store(r)
	return s
}

// Open is New with the rules of an EncryptionConfiguration; of says which resource a key is of. Configure takes another one.
func Open(below store.Store, data []byte, dial Dial, of func(key string) schema.GroupResource) (*Store, error) {
	r, err := Parse(data, dial, of)
	if err != nil {
		return nil, err
	}
	s := New(below, r)
	s.parse = func(data []byte) (*Rules, error) { return Parse(data, dial, of) }
	return s, nil
}

// Configure makes the rules of another EncryptionConfiguration hold, as Replace.
func (s *Store) Configure(data []byte) error {
	r, err := s.parse(data)
	if err == nil {
		s.Replace(r)
	}
	return err
}

// Replace makes other rules hold. Watches under way end with store.ErrCompacted, so that watchers read all again:
// what could not be opened before may be readable now.
func (s *Store) Replace(r *Rules) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.rules.Swap(r)
	s.tell()
	// A write that is under way by the old rules fails, and its caller tries again.
	if err := old.Close(); err != nil {
		slog.Debug("end the connections to key management plugins", "err", err)
	}
}

// tell ends the watches under way. It needs mu.
func (s *Store) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// maxPause is the longest time until values are read again that a plugin could not open though it is well.
const maxPause = 10 * time.Minute

// await has watchers read all again once a plugin is well that could not open a value. When it is well and still can't, that happens
// ever more rarely.
func (s *Store) await(k *kms) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits[k] {
		return
	}
	s.waits[k] = true
	if time.Since(s.told) > 2*s.pause {
		s.pause = kmsPause
	}
	pause, changed := s.pause, s.changed
	s.pause = min(2*pause, maxPause)
	go func() {
		well := s.recovers(k, pause, changed)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waits, k)
		if well {
			s.told = time.Now()
			s.tell()
		}
	}()
}

// recovers waits until the plugin is well. false: watchers read all again without that, or there are no more.
func (s *Store) recovers(k *kms, pause time.Duration, changed <-chan struct{}) bool {
	for {
		select {
		case <-changed:
			return false
		case <-s.done:
			return false
		case <-time.After(pause):
		}
		if k.healthy(context.Background()) == nil {
			return true
		}
		pause = kmsPause
	}
}

func (s *Store) change() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Write implements store.Store.
func (s *Store) Write(ctx context.Context, w store.Write) (int64, error) {
	if w.Value != nil {
		value, err := s.rules.Load().seal(w.Key, w.Value)
		if err != nil {
			return 0, fmt.Errorf("seal it: %w", err)
		}
		w.Value = value
	}
	rev, err := s.Store.Write(ctx, w)
	var c *store.ConflictError
	if errors.As(err, &c) && c.Current != nil {
		return rev, &store.ConflictError{Current: s.open(c.Current), At: c.At}
	}
	return rev, err
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (*store.KV, int64, error) {
	kv, rev, err := s.Store.Get(ctx, key)
	return s.open(kv), rev, err
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int, rev int64) (store.Page, error) {
	page, err := s.Store.List(ctx, prefix, after, limit, rev)
	if err != nil {
		return page, err
	}
	out := make([]store.KV, len(page.KVs)) // the page belongs to the store below
	for i := range page.KVs {
		out[i] = *s.open(&page.KVs[i])
	}
	page.KVs = out
	return page, nil
}

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, prefix string, after int64, f func(store.Batch) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	changed := s.change()
	go func() {
		select {
		case <-changed:
			stop(errReplaced)
		case <-ctx.Done():
		}
	}()
	err := s.Store.Watch(ctx, prefix, after, func(b store.Batch) error {
		events := make([]store.Event, len(b.Events))
		for i, e := range b.Events {
			e.KV, e.Prev = s.open(e.KV), s.open(e.Prev)
			events[i] = e
		}
		return f(store.Batch{Rev: b.Rev, Events: events})
	})
	if errors.Is(context.Cause(ctx), errReplaced) {
		return errReplaced
	}
	return err
}

var errReplaced = fmt.Errorf("the rules of encryption changed: %w", store.ErrCompacted)

// open returns the pair with its value in clear, or with the reason why it can't be opened. The store's own is not
// changed.
func (s *Store) open(kv *store.KV) *store.KV {
	if kv == nil {
		return nil
	}
	value, err := s.rules.Load().open(kv.Key, kv.Value)
	if err == nil && bytes.Equal(value, kv.Value) {
		return kv
	}
	var p *pluginError
	if errors.As(err, &p) {
		s.await(p.of)
	}
	clear := *kv
	clear.Value, clear.Err = value, err
	return &clear
}

// Stale tells whether the key's value is stored in another form than a write would give it now. A missing key is not.
func (s *Store) Stale(ctx context.Context, key string) (bool, error) {
	r := s.rules.Load()
	first := r.writer(key)
	if first == nil && !r.covers(key) {
		return false, nil
	}
	kv, _, err := s.Store.Get(ctx, key)
	if kv == nil || err != nil {
		return false, err
	}
	if first == nil {
		return bytes.HasPrefix(kv.Value, sealedPrefix), nil
	}
	if !bytes.HasPrefix(kv.Value, first.prefix) {
		return true, nil
	}
	return first.fresh != nil && !first.fresh(kv.Value[len(first.prefix):]), nil
}

// Remote says that plugins have keys.
func (s *Store) Remote() bool { return s.rules.Load().Remote() }

// Healthy says what keeps keys from being had.
func (s *Store) Healthy(ctx context.Context) error { return s.rules.Load().Healthy(ctx) }

// Close implements store.Store.
func (s *Store) Close() error {
	s.end.Do(func() { close(s.done) })
	return errors.Join(s.rules.Load().Close(), s.Store.Close())
}

// Seal returns what the store would keep of a value under a key, for those who keep copies beside it; hidden says that the value
// can't be read from it.
func (s *Store) Seal(key string, value []byte) (kept []byte, hidden bool, err error) {
	r := s.rules.Load()
	if r.writer(key) == nil {
		return value, false, nil
	}
	kept, err = r.seal(key, value)
	return kept, true, err
}

// Unseal returns the value of what Seal returned for the key. It fails when the key it was sealed by is no longer configured.
func (s *Store) Unseal(key string, kept []byte) ([]byte, error) {
	return s.rules.Load().open(key, kept)
}
