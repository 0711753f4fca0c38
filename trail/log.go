package trail

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Config says what a Log keeps.
type Config struct {
	Dir     string // of the older writes; "": they are forgotten
	Export  *Exporter
	Log     *slog.Logger
	Now     func() time.Time // nil: time.Now
	Recent  int              // writes kept in memory; 0: 16,384
	MaxDisk int64            // bytes; 0: 64 MiB
	News    News             // of workloads, as workloads.News; nil: there are none
}

const (
	defaultRecent  = 1 << 14
	defaultMaxDisk = 64 << 20
	flushEvery     = time.Second
	maxPending     = 1 << 15 // writes that wait to be written to disk
)

// A Log remembers writes. It is safe for concurrent use.
type Log struct {
	cfg Config

	mu      sync.Mutex
	ring    [][]Write     // the newest, in chunks: a ring that grew would be copied, again and again; see at
	size    int           // how many there are
	next    int           // the place of the next one, when the ring is full
	noted   int           // how many there have been
	texts   texts         // of what is in the ring
	news    chan struct{} // closed when something was noted; nil: nobody waits
	pending []Write
	lost    int // that came faster than the disk takes them

	disk  *disk
	seats chan struct{}
	asks  chan struct{} // as seats, of those who ask other servers
}

// readers bounds the questions that are answered at a time: each may read all that is on disk, and who may get one object may ask.
const readers = 2

// New returns a Log; Run writes what it notes to disk.
func New(cfg Config) *Log {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Recent == 0 {
		cfg.Recent = defaultRecent
	}
	if cfg.MaxDisk == 0 {
		cfg.MaxDisk = defaultMaxDisk
	}
	l := &Log{cfg: cfg, seats: make(chan struct{}, readers), asks: make(chan struct{}, readers)}
	if cfg.Dir != "" {
		l.disk = &disk{dir: cfg.Dir, most: cfg.MaxDisk}
	}
	return l
}

// Note remembers a change. It does not block.
func (l *Log) Note(c *Change) {
	w, ok := c.write(l.cfg.News)
	if !ok {
		return
	}
	w.At = l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts.take(&w)
	l.noted++
	switch {
	case l.size < l.cfg.Recent:
		if l.size%ringChunk == 0 {
			l.ring = append(l.ring, make([]Write, ringChunk))
		}
		*l.at(l.size) = w
		l.size++
	default:
		*l.at(l.next) = w
		l.next = (l.next + 1) % l.cfg.Recent
	}
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
	if l.disk == nil && l.cfg.Export == nil {
		return
	}
	if len(l.pending) >= maxPending {
		l.lost++
		return
	}
	l.pending = append(l.pending, w)
}

// ringChunk counts the writes that lie together.
const ringChunk = 64

// at is the write in a place of the ring.
func (l *Log) at(i int) *Write { return &l.ring[i/ringChunk][i%ringChunk] }

// Recent returns the writes in memory, oldest first, that the function keeps.
func (l *Log) Recent(keep func(*Write) bool) []Write {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest(l.size, keep)
}

func (l *Log) newest(n int, keep func(*Write) bool) (out []Write) {
	for i := l.size - n; i < l.size; i++ {
		w := l.at((l.next + i) % l.size)
		if keep(w) {
			out = append(out, *w)
		}
	}
	return out
}

// after returns the writes in memory that were noted after so many, how many there have been by now, and a channel that is closed at the
// next one.
func (l *Log) after(noted int) ([]Write, int, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.news == nil {
		l.news = make(chan struct{})
	}
	return l.newest(min(l.noted-noted, l.size), func(*Write) bool { return true }), l.noted, l.news
}

// All returns the writes since a time, from disk too, oldest first, that the function keeps: at most the newest limit.
func (l *Log) All(since time.Time, limit int, keep func(*Write) bool) ([]Write, error) {
	recent := l.Recent(func(w *Write) bool { return !w.At.Before(since) && keep(w) })
	var old []Write
	var err error
	if first := l.first(); l.disk != nil && (first == nil || first.At.After(since)) {
		old, err = l.disk.read(since, func(w *Write) bool { return (first == nil || w.Rev < first.Rev) && keep(w) })
	}
	out := append(old, recent...)
	if over := len(out) - limit; over > 0 {
		out = out[over:]
	}
	return out, err
}

// first is the oldest write in memory.
func (l *Log) first() *Write {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size == 0 {
		return nil
	}
	w := *l.at(l.next % l.size)
	return &w
}

// Run writes to disk, and exports, until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return errors.Join(l.flush(context.WithoutCancel(ctx)), l.disk.close())
		case <-tick.C:
			if err := l.flush(ctx); err != nil {
				l.cfg.Log.Warn("keep the trail of writes", "err", err)
			}
		}
	}
}

func (l *Log) flush(ctx context.Context) error {
	l.mu.Lock()
	list, lost := l.pending, l.lost
	l.pending, l.lost = nil, 0
	l.mu.Unlock()
	if lost > 0 {
		l.cfg.Log.Warn("writes came faster than their trail could be kept", "lost", lost)
	}
	if len(list) == 0 {
		return nil
	}
	var err error
	if l.cfg.Export != nil {
		err = l.cfg.Export.send(ctx, list)
	}
	if l.disk != nil {
		err = errors.Join(err, l.disk.write(list))
	}
	return err
}
