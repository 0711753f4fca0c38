package loop

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/resource"
)

// state is the state of a key in the queue.
type state uint8

const (
	resting state = iota // nothing to do; the entry only remembers its past
	queued               // in the ready list
	waiting              // in the timer heap
	fenced               // waits until the view holds its own last writes: what expectations are for upstream
	running              // a worker has it
)

// entry is one key's place in the queue, and its record.
type entry struct {
	key       Key
	state     state
	dirty     bool      // woken while running: look again when done
	due       time.Time // when waiting
	pushed    time.Time // when queued
	notBefore time.Time // not before this: the controller's Rest
	index     int       // in the heap when waiting
	fence     map[resource.Kind]int64
	meanwhile []Cause // what woke it while it ran, the newest

	rec Record
}

// queue is the workqueue of a controller, with its rate limits. It orders keys: ready ones first in, first out; the others by due time.
// One mutex guards it all; nothing blocks under it.
type queue struct {
	mu    sync.Mutex
	keys  map[Key]*entry
	ready []*entry
	later timers
	shut  map[*entry]bool // fenced entries
	bell  chan struct{}   // wakes workers; buffered by one
	now   func() time.Time
	turn  func(ctx context.Context) error
	luck  func(n int64) int64

	keeps  string // as in Stats
	writes []string

	rates       rateStats
	first, most time.Duration // the pause after a first failure, and the longest
}

// newQueue returns an empty queue. It goes by the clock that no one sets: a step of the wall clock delays nothing.
func newQueue(env Env) *queue {
	return &queue{keys: map[Key]*entry{}, shut: map[*entry]bool{}, bell: make(chan struct{}, 1), now: time.Now,
		turn: env.Turn, luck: env.Chance, first: 10 * time.Millisecond, most: 5 * time.Minute}
}

func (q *queue) ring() {
	select {
	case q.bell <- struct{}{}:
	default:
	}
}

// wake marks a key due now. A key that backs off after an error stays so, unless what woke it is news.
func (q *queue) wake(key Key, cause Cause) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[key]
	if e == nil {
		e = &entry{key: key, index: -1}
		q.keys[key] = e
	}
	e.rec.woken(cause, q.now())
	switch e.state {
	case resting:
		q.pushCalm(e)
	case running:
		e.dirty = true
		e.meanwhile = keep(e.meanwhile, maxCauses, cause)
	case waiting:
		if e.rec.Fails > backoffResetFailures && !e.tells(cause) {
			return // its own writes have not helped lately; its pause runs on
		}
		q.hasten(e)
	case queued, fenced:
	}
}

// tells says that a key was woken by a change that is not of its own.
func (e *entry) tells(c Cause) bool { return c.Kind != nil && c.Rev > e.fence[c.Kind] }

// hasten cuts short the pause of a key that waits, but not its rest.
func (q *queue) hasten(e *entry) {
	if e.rec.Fails > backoffResetFailures {
		if at := e.rec.LastFail.Add(newsPause); at.After(e.notBefore) {
			e.notBefore = at
		}
	}
	if !e.due.After(e.notBefore) {
		return
	}
	heap.Remove(&q.later, e.index)
	q.pushCalm(e)
}

// pushCalm makes a key ready once it has rested.
func (q *queue) pushCalm(e *entry) {
	if e.notBefore.After(q.now()) {
		q.delay(e, e.notBefore)
		return
	}
	q.push(e)
}

// known returns every key that the queue remembers, in order.
func (q *queue) known() (list []Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k := range q.keys {
		list = append(list, k)
	}
	coldsort.Func(list, compareKeys)
	return list
}

// backoffResetFailures is after how many failures in a row a key's own writes no longer cut its pause short, and other changes no more than
// to newsPause: it must not spin.
const (
	backoffResetFailures = 3
	newsPause            = time.Second
)

func (q *queue) push(e *entry) {
	e.state, e.index, e.pushed = queued, -1, q.now()
	q.rates.adds++
	q.ready = append(q.ready, e)
	q.ring()
}

// next hands out the next key that is due, or nil when ctx ends.
func (q *queue) next(ctx context.Context) *entry {
	for {
		if q.turn(ctx) != nil {
			return nil
		}
		e, sleep := q.take()
		if e != nil {
			return e
		}
		timer := time.NewTimer(sleep)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-q.bell:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take pops a ready key, or says how long to sleep at most.
func (q *queue) take() (*entry, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	for len(q.later) > 0 && !q.later[0].due.After(now) {
		q.push(heap.Pop(&q.later).(*entry))
	}
	if len(q.ready) == 0 {
		sleep := time.Hour
		if len(q.later) > 0 {
			sleep = q.later[0].due.Sub(now)
		}
		return nil, sleep
	}
	e := q.ready[0]
	q.ready[0] = nil
	q.ready = q.ready[1:]
	if len(q.ready) > 0 || len(q.later) > 0 {
		q.ring() // another worker may have work, or must take over the timer
	}
	e.state, e.dirty, e.meanwhile = running, false, nil
	q.rates.waited.add(now.Sub(e.pushed))
	e.rec.started(now)
	return e, 0
}

// hold parks a key that a worker took until the view has caught up with its writes.
func (q *queue) hold(e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.state = fenced
	e.rec.Since, e.rec.Running = e.rec.queuedAt, false
	q.shut[e] = true
}

// caughtUp releases the keys whose fence the reader has passed.
func (q *queue) caughtUp(read resource.Reader) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var free []*entry
	for e := range q.shut {
		if passed(e.fence, read) {
			delete(q.shut, e)
			free = append(free, e)
		}
	}
	slices.SortFunc(free, func(a, b *entry) int {
		return cmp.Or(a.rec.queuedAt.Compare(b.rec.queuedAt), compareKeys(a.key, b.key))
	})
	for _, e := range free {
		q.push(e)
	}
}

func passed(fence map[resource.Kind]int64, read resource.Reader) bool {
	for k, rev := range fence {
		if read.Revision(k) < rev {
			return false
		}
	}
	return true
}

// outcome is the result of a reconcile.
type outcome struct {
	again  time.Duration
	err    error
	wrote  map[resource.Kind]int64
	writes []string
	note   string
	gone   bool // the object does not exist
	rest   time.Duration
	took   time.Duration
}

// finish takes a key back from a worker and decides when it is due again.
func (q *queue) finish(e *entry, o outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	q.rates.add(now, o.took, o.err)
	e.rec.ended(o, now)
	e.notBefore = now.Add(o.rest)
	for k, rev := range o.wrote {
		if e.fence == nil {
			e.fence = map[resource.Kind]int64{}
		}
		e.fence[k] = max(e.fence[k], rev)
	}
	switch {
	case o.err != nil:
		o.again = q.pause(e.rec.Fails)
		e.rec.Next = now.Add(o.again)
		q.delay(e, e.rec.Next)
		if e.dirty && (e.rec.Fails <= backoffResetFailures || slices.ContainsFunc(e.meanwhile, e.tells)) {
			q.hasten(e)
		}
	case e.dirty:
		q.pushCalm(e)
	case o.again > 0:
		e.rec.Next = now.Add(o.again)
		q.delay(e, e.rec.Next)
	case o.gone && len(o.wrote) > 0:
		q.pushCalm(e) // or what wakes it before the view has its writes would find it without a past
	case o.gone:
		delete(q.keys, e.key)
	default:
		e.state = resting
	}
}

func (q *queue) delay(e *entry, due time.Time) {
	e.state, e.due = waiting, due
	heap.Push(&q.later, e)
	q.ring()
}

// pause grows from the first one to the longest, spread by a fifth either way so that keys that failed together do not
// come back together.
func (q *queue) pause(fails int) time.Duration {
	d := min(q.first<<min(fails-1, 20), q.most)
	return d*4/5 + time.Duration(q.luck(int64(d*2/5)))
}

// timers is a heap by due time.
type timers []*entry

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].due.Before(t[j].due) }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i]; t[i].index, t[j].index = i, j }
func (t *timers) Push(x any)        { e := x.(*entry); e.index = len(*t); *t = append(*t, e) }
func (t *timers) Pop() any {
	old := *t
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*t, e.index = old[:len(old)-1], -1
	return e
}
