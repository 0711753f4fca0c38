// Package history is an undo log of the cluster: for every write, what its object was before. The past is read from the present
// backwards: an object was at a time what the first write after that time found.
//
// A Log follows the view, so it holds the writes of all servers that share a store, in order, and costs a request nothing. It has
// no word on who wrote: package trail does, by the same revision. Chunks on disk say which revisions they hold; where one does not
// begin at the end of the one before it, something is not known, and Span.Breaks says so. It is a log, not a truth:
// nothing is synced.
package history

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/view"
)

// A Cipher keeps values from being read in files. Its methods are safe for concurrent use.
type Cipher interface {
	// Seal returns what is kept of the value under a key; hidden says that the value can't be read from it.
	Seal(key string, value []byte) (kept []byte, hidden bool, err error)
	// Unseal returns the value that Seal was given for the key, as long as the keys of then are known.
	Unseal(key string, kept []byte) ([]byte, error)
}

// Config says what a Log keeps.
type Config struct {
	Dir    string // "": in memory
	Most   int64  // bytes; 0: 128 MiB on disk, 8 MiB in memory
	Cipher Cipher // nil: values lie as they are
	Secret []byte // from which the stand-ins of Secrets' values are made; the same after a restart
	Log    *slog.Logger
	Now    func() time.Time // nil: time.Now
}

const (
	mostOnDisk   = 128 << 20
	mostInMemory = 8 << 20
	chunkSize    = 256 << 10
	flushAfter   = time.Second
	mostRoom     = 64 << 10
)

// A Log keeps what objects were. It is safe for concurrent use; one goroutine runs it.
type Log struct {
	cfg Config

	mu      sync.Mutex
	open    []byte                         // records of the chunk that is being made
	room    []byte                         // in which objects are encoded
	bare    map[reflect.Type]reflect.Value // the same of their structs, without owners
	head    header                         // of that chunk
	seen    int64                          // the last revision that was taken in
	news    chan struct{}
	shelves *shelf
}

// New returns a Log; Run fills it.
func New(cfg Config) *Log {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Most == 0 {
		cfg.Most = mostInMemory
		if cfg.Dir != "" {
			cfg.Most = mostOnDisk
		}
	}
	return &Log{cfg: cfg, shelves: &shelf{dir: cfg.Dir, most: cfg.Most}}
}

// Run takes in what changes in the view from when it calls ready, until ctx ends.
func (l *Log) Run(ctx context.Context, v *view.View, ready func()) error {
	now := v.Snapshot()
	c := v.CursorAt(now)
	l.begin(now.Rev())
	ready()
	tick := time.NewTimer(flushAfter)
	defer tick.Stop()
	for {
		for {
			changes, err := c.TryChanges()
			if errors.Is(err, view.ErrExpired) { // the next chunk begins later than this one ends: readers see that
				l.flush()
				now = v.Snapshot()
				c = v.CursorAt(now)
				l.begin(now.Rev())
				continue
			}
			if err != nil {
				return err
			}
			if len(changes) == 0 {
				break
			}
			if l.takeAll(changes) {
				tick.Reset(flushAfter)
			}
		}
		l.caughtUp(c.Revision())
		select {
		case <-ctx.Done():
			l.caughtUp(c.Revision())
			l.flush()
			return l.shelves.close()
		case <-c.Changed():
		case <-tick.C:
			l.flush()
		}
	}
}

// begin starts a chunk behind a revision.
func (l *Log) begin(rev int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.cfg.Now().UnixMilli()
	l.head = header{From: rev, To: rev, Begin: at, End: at}
	l.seen = max(l.seen, rev)
}

// takeAll takes in changes; first says that a chunk was begun by it, which is to be written soon.
func (l *Log) takeAll(list []view.Change) (first bool) {
	l.mu.Lock()
	first = len(l.open) == 0
	at := l.cfg.Now()
	for i := range list {
		l.take(&list[i], at)
	}
	l.reached(list[len(list)-1].Rev)
	first = first && len(l.open) > 0
	full := len(l.open) >= chunkSize
	l.mu.Unlock()
	if full {
		l.flush()
	}
	return first
}

// take adds the record of a change. It needs mu.
func (l *Log) take(c *view.Change, at time.Time) {
	l.head.To = max(l.head.To, c.Rev)
	if !worth(c) {
		return
	}
	r := Record{Rev: c.Rev, At: at}
	e := c.New
	if e == nil {
		e = c.Old
		r.gone = true
	}
	r.Key = c.Kind.Info().Key(e.Object.GetNamespace(), e.Object.GetName())
	if c.Old != nil {
		r.Was = c.Old.Rev
		var err error
		if r.body, r.sealed, err = l.body(c.Kind, r.Key, c.Old.Object); err != nil {
			l.cfg.Log.Warn("keep what an object was", "object", r.Key, "err", err)
			r.lost = true
		}
	}
	l.open = r.append(l.open)
}

// worth says that what a change did may be asked for. Leases only beat. Events that are there tell of themselves; of those
// that are gone only warnings explain anything.
func worth(c *view.Change) bool {
	switch c.Kind {
	case resource.Kind(coordination.Leases):
		return false
	case resource.Kind(core.Events):
		if c.New != nil || c.Old == nil {
			return false
		}
		e, ok := c.Old.Object.(*corev1.Event)
		return ok && e.Type == corev1.EventTypeWarning
	}
	return !c.Kind.Info().Virtual
}

// body encodes an object as the store does, without the owners of its fields. What it returns is good until the next call. It needs mu.
func (l *Log) body(k resource.Kind, key string, obj resource.Object) (kept []byte, sealed bool, err error) {
	value, err := codec.AppendStored(l.room[:0], k, l.plain(obj))
	if err != nil {
		return nil, false, err
	}
	if l.room = value; cap(value) > mostRoom {
		l.room = nil
	}
	if l.cfg.Cipher != nil {
		if kept, sealed, err = l.cfg.Cipher.Seal(key, value); err != nil || sealed {
			return kept, sealed, err
		}
	}
	if k == resource.Kind(core.Secrets) {
		value, err = codec.Stored(k, l.Masked(obj))
	}
	return value, false, err
}

// caughtUp says that everything up to a revision was taken in.
func (l *Log) caughtUp(rev int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reached(rev)
}

// reached notes a revision. It needs mu.
func (l *Log) reached(rev int64) {
	l.seen, l.head.To = max(l.seen, rev), max(l.head.To, rev)
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
}

// Wait waits until the log holds all writes up to a revision, or ctx ends.
func (l *Log) Wait(ctx context.Context, rev int64) error {
	for {
		l.mu.Lock()
		if l.seen >= rev {
			l.mu.Unlock()
			return nil
		}
		if l.news == nil {
			l.news = make(chan struct{})
		}
		news := l.news
		l.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// flush ends the chunk and begins the next one where it ends.
func (l *Log) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head.End = l.cfg.Now().UnixMilli()
	if len(l.open) == 0 && l.head.From == l.head.To {
		return
	}
	if err := l.shelves.add(l.head, l.open); err != nil {
		l.cfg.Log.Warn("keep the history", "err", err)
	}
	l.head = header{From: l.head.To, To: l.head.To, Begin: l.head.End, End: l.head.End}
	l.open = l.open[:0]
}
