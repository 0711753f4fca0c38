package loop

import (
	"sync"
	"time"
)

// A RecordSource is the Source of a loop with a queue of its own, such as the scheduler: the loop writes down what becomes
// of its keys, others read it. It holds no more than the keys that are not at rest. Safe for concurrent use; a nil
// *RecordSource takes everything and keeps nothing.
type RecordSource struct {
	now    func() time.Time
	keeps  string // as in Stats
	writes []string

	mu     sync.Mutex
	keys   map[Key]*Record
	rates  rateStats
	depth  int
	oldest time.Time
}

// NewRecordSource returns one without records; nil means time.Now. keeps and writes are resources, as in Stats.
func NewRecordSource(now func() time.Time, keeps string, writes ...string) *RecordSource {
	if now == nil {
		now = time.Now
	}
	return &RecordSource{now: now, keeps: keeps, writes: writes, keys: map[Key]*Record{}}
}

// Waits writes down that a look at the key ended, and what the key waits for now. An err is a failure, a note is
// not. next is the time at which it is looked at again without any change; zero: on the next change that could help.
func (l *RecordSource) Waits(key Key, took time.Duration, note string, err error, next time.Time) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.rates.add(now, took, err)
	r := l.keys[key]
	if r == nil {
		r = &Record{Key: key}
		l.keys[key] = r
	}
	r.ended(outcome{err: err, note: note}, now)
	r.State, r.Next = stateNames[waiting], next
}

// Rests writes down that the key is at rest; took is zero when nobody looked, as when it went.
func (l *RecordSource) Rests(key Key, took time.Duration) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.keys, key)
	if took > 0 {
		l.rates.add(l.now(), took, nil)
	}
}

// Queue writes down how many keys are due and since when the oldest is.
func (l *RecordSource) Queue(depth int, oldest time.Time) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.depth, l.oldest = depth, oldest
}

// Stats implements Source.
func (l *RecordSource) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{Keeps: l.keeps, Writes: l.writes, Keys: len(l.keys) + l.depth, Depth: l.depth, Waiting: len(l.keys)}
	now := l.now()
	if l.depth > 0 && !l.oldest.IsZero() {
		s.Oldest = now.Sub(l.oldest)
	}
	for _, r := range l.keys {
		if r.Fails > 0 {
			s.Failing++
		}
	}
	l.rates.fill(&s, now)
	return s
}

// Records implements Source.
func (l *RecordSource) Records() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Record, 0, len(l.keys))
	for _, r := range l.keys {
		list = append(list, *r)
	}
	return list
}

// Record implements Source.
func (l *RecordSource) Record(key Key) (Record, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.keys[key]
	if r == nil {
		return Record{}, false
	}
	return *r, true
}
