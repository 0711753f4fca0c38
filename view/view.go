// Package view is the watch cache: all kinds in memory at one revision, fed by one watch on the store's whole
// prefix. It answers the reads of the API server and of the loops with shared, unchanging objects.
//
// A Snapshot is the state at one revision; taking one copies nothing. A Cursor tells what changed since a
// revision, from a bounded history: watches and loops both live on it. Encodings of an object are made at
// most once per revision and shared by every GET, LIST and watcher.
//
// A view has one of two feeds. Follow keeps it at the state of a store; then all kinds share one revision.
// Replace, Update and Advance feed it kind by kind, as a client of a remote server does; then every kind has
// a revision of its own.
package view

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// ErrExpired says that the history does not reach back to the asked revision: list again.
var ErrExpired = errors.New("too old resource version")

// Config bounds what a view keeps beside the state itself. Zero fields mean the defaults.
type Config struct {
	Changes   int           // how many changes the history keeps; 100,000
	Age       time.Duration // how long it keeps them, to the minute; 10 minutes
	Bytes     int64         // how many bytes of replaced objects the history keeps, counted as stored; 32 MiB
	Encodings int64         // how many bytes of encodings are kept; 64 MiB
	Offers    int64         // how many bytes of offered values wait for their event; 32 MiB
	Pace      time.Duration // in a storm of writes cursors are woken no more often than this; 0: at every write
	Shed      func()        // called when much of the history was dropped; must not block. nil: not called
	Guard     bool          // hash every object, so that CheckFrozen can find those that were changed; for tests
}

func (c Config) filled() Config {
	if c.Changes == 0 {
		c.Changes = 100_000
	}
	if c.Age == 0 {
		c.Age = 10 * time.Minute
	}
	if c.Bytes == 0 {
		c.Bytes = 32 << 20
	}
	if c.Encodings == 0 {
		c.Encodings = 64 << 20
	}
	if c.Offers == 0 {
		c.Offers = 32 << 20
	}
	return c
}

// A View holds the newest state and how it came about. All methods are safe for concurrent use.
type View struct {
	decoder

	cfg    Config
	source *resource.Set

	rev    atomic.Int64             // of the followed store; 0 when fed by kind
	latest atomic.Pointer[Snapshot] // nil when something changed since it was made

	// feed makes those who change the state take turns; it is held while objects are decoded, mu only while
	// the trees change. It is taken before mu.
	feed   sync.Mutex
	hidden hidden
	loaded bool // the first list is in

	compacting sync.Mutex // taken before mu, or tried

	mu       sync.Mutex
	slots    map[schema.GroupResource]int // of tables; replaced when it grows, as snapshots share it
	tables   []*table
	frozen   []*frozen // what the last snapshot holds; same slots
	floor    int64     // revision of the last full list: nothing is known about changes before it
	seq      uint64    // of the last change
	history  history
	waiters  waiters
	retained retention
	aging    bool // age comes by
	shedding bool // shed comes by
	moved    bool // a table moved since the last snapshot
}

// New returns an empty view of the kinds in the set.
func New(set *resource.Set) *View { return NewWith(set, Config{}) }

// NewWith is New with other bounds.
func NewWith(set *resource.Set, c Config) *View {
	c = c.filled()
	v := &View{cfg: c, source: set, slots: map[schema.GroupResource]int{},
		decoder: decoder{kinds: resource.NewSet(set.All()...), encoded: newBudget(c.Encodings), guard: c.Guard}}
	v.hidden.reset()
	v.offers.limit = c.Offers
	v.history.encoded = v.encoded
	v.waiters.pace.every = c.Pace
	return v
}

// Revision returns the revision of the newest state of a followed view.
func (v *View) Revision() int64 { return v.rev.Load() }

// Snapshot returns the newest state. It costs nothing when nothing changed since the last call, else time in
// proportion to the number of kinds that changed.
func (v *View) Snapshot() *Snapshot {
	if s := v.latest.Load(); s != nil {
		return s
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.snapshot()
}

// SnapshotOf returns a state in which the objects of this kind are the newest, and others may be older. As long as none of the kind
// has changed it is one that was taken before: who asks for it at every write has no write copy what it changes.
func SnapshotOf(v *View, k resource.Kind) *Snapshot {
	if s := v.latest.Load(); s != nil {
		return s
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if i, ok := v.slots[k.Info().GR()]; ok && (i >= len(v.frozen) || v.tables[i].moved) {
		return v.snapshot()
	}
	return &Snapshot{rev: v.rev.Load(), seq: v.seq, slots: v.slots, tables: v.frozen}
}

// snapshot needs mu.
func (v *View) snapshot() *Snapshot {
	if s := v.latest.Load(); s != nil {
		return s
	}
	if v.moved || len(v.frozen) != len(v.tables) {
		next := make([]*frozen, len(v.tables))
		copy(next, v.frozen)
		for i, t := range v.tables {
			if t.moved {
				next[i] = t.freeze()
			}
		}
		v.frozen, v.moved = next, false
	}
	s := &Snapshot{rev: v.rev.Load(), seq: v.seq, slots: v.slots, tables: v.frozen}
	v.latest.Store(s)
	return s
}

// table returns the table of a resource, a new one when there is none. k may be nil. It needs mu.
func (v *View) table(gr schema.GroupResource, k resource.Kind) *table {
	if i, ok := v.slots[gr]; ok {
		t := v.tables[i]
		if t.kind == nil {
			t.kind = k
		}
		return t
	}
	slots := make(map[schema.GroupResource]int, len(v.slots)+1)
	for gr, i := range v.slots {
		slots[gr] = i
	}
	t := newTable(k, len(v.tables))
	t.log.floor = v.floor
	slots[gr] = t.slot
	v.slots, v.tables = slots, append(v.tables, t)
	v.latest.Store(nil)
	return t
}
