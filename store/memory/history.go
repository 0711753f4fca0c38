package memory

import (
	"slices"
	"time"

	"github.com/kloop-dev/kloop/store"
)

// An item is one key with the versions that are still kept, oldest first.
type item struct {
	key      string
	versions []version
}

// A version is the value of a key from rev on; nil when it was deleted.
type version struct {
	rev int64
	kv  *store.KV
}

// current returns the newest state. The item may be nil.
func (it *item) current() *store.KV {
	if it == nil || len(it.versions) == 0 {
		return nil
	}
	return it.versions[len(it.versions)-1].kv
}

// at returns the state at a revision that is not compacted.
func (it *item) at(rev int64) *store.KV {
	for i := len(it.versions) - 1; i >= 0; i-- {
		if v := it.versions[i]; v.rev <= rev {
			return v.kv
		}
	}
	return nil
}

// trim forgets the versions that no revision from rev on shows, and reports whether any is left.
func (it *item) trim(rev int64) bool {
	keep := 0
	for i, v := range it.versions {
		if v.rev > rev {
			break
		}
		keep = i
		if v.kv == nil {
			keep = i + 1
		}
	}
	it.versions = slices.Delete(it.versions, 0, keep)
	return len(it.versions) > 0
}

func modRev(kv *store.KV) int64 {
	if kv == nil {
		return 0
	}
	return kv.ModRev
}

// history is the changes since the compacted revision. Every change has its own revision, so that the
// change of revision r is changes[r-compacted-1].
type history struct {
	compacted int64
	changes   []change
	bytes     int // of replaced values
	limits    limits
}

type change struct {
	it       *item
	prev, kv *store.KV
	at       time.Time
}

// limits bound the history. When one is exceeded the oldest eighth goes.
type limits struct {
	changes int
	bytes   int // of values that live only in the history
	age     time.Duration
}

// defaultLimits let a reader lag behind for as long as upstream's five minutes, unless writes come so fast
// that it would take too much memory.
var defaultLimits = limits{changes: 1 << 16, bytes: 16 << 20, age: 5 * time.Minute}

func (h *history) add(c change) {
	h.changes = append(h.changes, c)
	h.bytes += size(c.prev)
}

// excess returns the revision to compact to for the limits' sake, or 0.
func (h *history) excess() int64 {
	n := (len(h.changes) + 7) / 8
	old := time.Since(h.changes[n-1].at) > h.limits.age
	if !old && len(h.changes) <= h.limits.changes && h.bytes <= h.limits.bytes {
		return 0
	}
	return h.compacted + int64(n)
}

// forget drops the changes up to rev and hands them to f.
func (h *history) forget(rev int64, f func(change)) {
	n := rev - h.compacted
	for _, c := range h.changes[:n] {
		h.bytes -= size(c.prev)
		f(c)
	}
	h.changes = append(make([]change, 0, len(h.changes)), h.changes[n:]...)
	h.compacted = rev
}

// event returns the change of a revision as a watch tells it.
func (h *history) event(rev int64) store.Event {
	c := h.changes[rev-h.compacted-1]
	return store.Event{Rev: rev, Key: c.it.key, KV: c.kv, Prev: c.prev}
}

func size(kv *store.KV) int {
	if kv == nil {
		return 0
	}
	return len(kv.Value)
}

// compact forgets the history up to rev. The lock is held.
func (s *Store) compact(rev int64) {
	if rev <= s.history.compacted {
		return
	}
	s.history.forget(rev, func(c change) {
		if !c.it.trim(rev) {
			s.items.Delete(c.it)
		}
	})
}
