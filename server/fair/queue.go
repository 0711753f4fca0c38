package fair

import (
	"slices"
	"time"
)

// A queue holds waiting requests of the flows that were dealt it.
type queue struct {
	index   int
	waits   []*waiter
	running int
	used    int     // seats of what is running
	wanted  int     // seats of what waits
	nextR   float64 // the virtual time at which its next request is to begin
}

// A waiter is a request in a queue.
type waiter struct {
	t      Ticket
	s      Sorted
	since  time.Time
	served chan struct{} // closed when it has its seats
}

// hash is FNV-1a of schema and distinguisher.
func hash(schema, by string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(schema) {
		h = (h ^ uint64(schema[i])) * 1099511628211
	}
	h *= 1099511628211 // the zero between them
	for i := range len(by) {
		h = (h ^ uint64(by[i])) * 1099511628211
	}
	h ^= h >> 32 // FNV's low bits are its good ones, the deal also uses the high ones
	return h
}

// choose deals the flow a hand of queues and returns the one with the least work. It needs mu.
func (l *level) choose(h uint64) *queue {
	var hand [20]int // more cards can't be told apart by 60 bits, which validation demands
	n := deal(h, l.dealt, hand[:min(l.hand, len(hand))])
	var best *queue
	for i := range n { // from another card each time, so that equals share
		q := l.queues[hand[(i+l.turn)%n]]
		if best == nil || q.used+q.wanted < best.used+best.wanted {
			best = q
		}
	}
	l.turn++
	return best
}

// deal fills hand with different numbers below n, as the hash says: shuffle sharding. It returns how many.
func deal(h uint64, n int, hand []int) int {
	for i := range hand {
		left := uint64(n - i)
		card := int(h % left)
		h /= left
		at := 0
		for ; at < i && card >= hand[at]; at++ { // count past the cards that are dealt, which are kept in order
			card++
		}
		copy(hand[at+1:i+1], hand[at:i])
		hand[at] = card
	}
	return len(hand)
}

// begin sets the clock of a queue that had nothing to do.
func (q *queue) begin(r float64) {
	if q.running == 0 && len(q.waits) == 0 {
		q.nextR = r
	}
}

// enqueue puts a request at the end of its queue. It needs mu.
func (l *level) enqueue(t *Ticket, s Sorted, now time.Time) *waiter {
	q := t.queue
	q.begin(l.r)
	if q.running == 0 && len(q.waits) == 0 {
		l.active++
	}
	w := &waiter{t: *t, s: s, since: now, served: make(chan struct{})}
	q.waits = append(q.waits, w)
	q.wanted += t.seats
	l.waiting++
	l.wanted += t.seats
	s.flow.inQueue.Add(1)
	s.flow.seatsInQueue.Add(int64(t.seats))
	l.serve(now)
	l.demand.set(now, float64(l.used+l.wanted))
	return w
}

// withdraw takes a request out of its queue; false when it is no longer there. It needs mu.
func (l *level) withdraw(w *waiter) bool {
	q := w.t.queue
	i := slices.Index(q.waits, w)
	if i < 0 {
		return false
	}
	q.waits = slices.Delete(q.waits, i, i+1)
	l.unqueue(w)
	l.settle(q)
	return true
}

func (l *level) unqueue(w *waiter) {
	w.t.queue.wanted -= w.t.seats
	l.waiting--
	l.wanted -= w.t.seats
	w.s.flow.inQueue.Add(-1)
	w.s.flow.seatsInQueue.Add(-int64(w.t.seats))
}

// dispatch gives a request of a queue its seats. It needs mu.
func (l *level) dispatch(t *Ticket, now time.Time) {
	q := t.queue
	if q.running == 0 && len(q.waits) == 0 {
		l.active++
	}
	q.running++
	q.used += t.seats
	t.guess = l.guess
	q.nextR += float64(t.seats) * t.guess
	t.since = now
	l.take(t, now)
}

// settle notes that a queue may have become idle. It needs mu.
func (l *level) settle(q *queue) {
	if q.running == 0 && len(q.waits) == 0 {
		l.active--
	}
}

// serve gives seats to waiting requests, as long as there are any: always to the queue whose next request would be done
// first in virtual time. It needs mu.
func (l *level) serve(now time.Time) {
	for l.waiting > 0 {
		var best *queue
		var soonest float64
		for i := range l.queues {
			q := l.queues[(i+l.turn)%len(l.queues)]
			if len(q.waits) == 0 {
				continue
			}
			done := q.nextR + float64(q.waits[0].t.seats)*l.guess
			if best == nil || done < soonest {
				best, soonest = q, done
			}
		}
		w := best.waits[0]
		if !l.fits(w.t.seats) {
			return
		}
		l.turn = best.index + 1
		l.dispatch(&w.t, now) // first, so that the queue does not look idle between
		best.waits[0] = nil
		best.waits = best.waits[1:]
		l.unqueue(w)
		close(w.served)
	}
}

// advance moves virtual time on: it runs as fast as the seats in use, shared among the queues that want any. It needs mu.
func (l *level) advance(now time.Time) {
	if l.active > 0 {
		seats := min(l.used+l.wanted, max(l.limit, 1))
		l.r += now.Sub(l.last).Seconds() * float64(seats) / float64(l.active)
	}
	l.last = now
}
