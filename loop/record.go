package loop

import (
	"slices"
	"time"

	"github.com/kloop-dev/kloop/resource"
)

// maxCauses and maxWrites bound what a record remembers.
const (
	maxCauses = 4
	maxWrites = 8
)

// A Cause is why a key was woken.
type Cause struct {
	Why             string // change, start, resync, again, retry
	Kind            resource.Kind
	Namespace, Name string
	Rev             int64
}

// A Record says why a key is not at rest, or how it last came to rest.
type Record struct {
	Key     Key
	State   string    // resting, queued, waiting, fenced, running
	Causes  []Cause   // the newest, at most four
	Since   time.Time // when it was queued, or started to run
	Running bool
	Runs    int64 // reconciles since start

	Fails     int       // in a row
	LastErr   string    // of the newest failure; empty after a success
	FirstFail time.Time // of this row
	LastFail  time.Time
	Next      time.Time // when it is due again; zero: on the next change
	Note      string    // what the controller said it waits for
	Writes    []string  // its newest writes, at most eight: "create pod/web-1"
	LastGood  time.Time // when it last ended without error

	queuedAt time.Time
}

func (r *Record) woken(c Cause, now time.Time) {
	if r.queuedAt.IsZero() {
		r.queuedAt = now
		r.Since = now
	}
	r.Causes = keep(r.Causes, maxCauses, c)
}

func (r *Record) started(now time.Time) {
	r.Since, r.Running, r.Next = now, true, time.Time{}
}

func (r *Record) ended(o outcome, now time.Time) {
	r.Runs++
	r.Running, r.queuedAt, r.Since = false, time.Time{}, now
	r.Note = o.note
	r.Writes = keep(r.Writes, maxWrites, o.writes...)
	if o.err == nil {
		r.Fails, r.LastErr, r.FirstFail, r.LastGood = 0, "", time.Time{}, now
		return
	}
	r.Fails++
	r.LastErr, r.LastFail = o.err.Error(), now
	if r.Fails == 1 {
		r.FirstFail = now
	}
}

// keep appends and drops the oldest beyond n.
func keep[T any](list []T, n int, more ...T) []T {
	list = append(list, more...)
	if over := len(list) - n; over > 0 {
		list = slices.Delete(list, 0, over)
	}
	return list
}

var stateNames = [...]string{"resting", "queued", "waiting", "fenced", "running"}

// Stats sums up one loop.
type Stats struct {
	Name         string
	Keys         int // known
	Depth        int // ready, not yet running
	Waiting      int // due later, on purpose or after an error
	Failing      int // keys whose last reconcile failed
	Running      int // being looked at
	Oldest       time.Duration
	Keeps        string   // the resource whose objects are its keys; "*": every one's, "": nobody says
	Writes       []string // the resources that it may change; "*": every one. Shared: not to be changed
	Done, Failed int64

	Rate     float64       // looks per second in the last minute
	P99      time.Duration // of how long the newest looks took
	LastGood time.Time     // when a look last ended without error
	LastErr  string        // the newest error, of any key
	LastFail time.Time
	ErrRow   int64 // errors since a look last went well

	Adds   int64  // keys that became due, ever
	Waited Spread // how long keys were due before they were looked at; empty where nobody counts
	Worked Spread // how long looks took
}

// Records returns the records of all keys that are not at rest or last failed.
func (q *queue) Records() (list []Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.keys {
		if e.state == resting && e.rec.Fails == 0 && e.rec.Note == "" {
			continue
		}
		list = append(list, e.snapshot())
	}
	return list
}

// Record returns the record of one key, whatever its state.
func (q *queue) Record(key Key) (Record, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[key]
	if e == nil {
		return Record{}, false
	}
	return e.snapshot(), true
}

func (e *entry) snapshot() Record {
	r := e.rec
	r.Key, r.State = e.key, stateNames[e.state]
	r.Causes, r.Writes = slices.Clone(r.Causes), slices.Clone(r.Writes)
	return r
}

// Stats implements Source.
func (q *queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{Keeps: q.keeps, Writes: q.writes, Keys: len(q.keys), Depth: len(q.ready), Waiting: len(q.later) + len(q.shut)}
	now := q.now()
	for _, e := range q.keys {
		if e.rec.Fails > 0 {
			s.Failing++
		}
		switch e.state {
		case queued:
			s.Oldest = max(s.Oldest, now.Sub(e.rec.queuedAt))
		case running:
			s.Running++
		}
	}
	q.rates.fill(&s, now)
	return s
}
