package fair

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// firstGuess is the time that the first requests of a level are thought to take, in seconds.
//
// Unlike Kubernetes, later guesses follow what requests took: a queue whose requests take long falls behind at once, not
// only when they have been served.
const firstGuess = 0.003

// maxWidth is the most seats of one request.
const maxWidth = 10

// A level is the seats of one priority level.
type level struct {
	name, uid string
	most      atomic.Int64 // seats that one request may take

	nominal, least, largest int // limits in seats; guarded by Fair.mu
	current                 int // same
	smoothed                float64
	stats                   demand // of the last period; guarded by Fair.mu

	mu      sync.Mutex
	exempt  bool
	limit   int // how many seats may be in use
	used    int
	running int
	queues  []*queue // none: what finds no seat is refused
	dealt   int      // how many queues get new requests; those beyond are served until they are empty
	hand    int
	length  int // of a queue
	turn    int // the queue to look at first
	waiting int
	wanted  int     // seats of what waits
	active  int     // queues with requests
	guess   float64 // how long a request takes, in seconds
	r       float64 // virtual time: seat-seconds that each active queue could have had
	last    time.Time
	demand  integral

	dispatched, rejected, timedOut, cancelled int64
}

// rebuildLevels makes the levels be those of the objects. It needs Fair.mu.
func (f *Fair) rebuildLevels(list []*flowcontrolv1.PriorityLevelConfiguration) {
	specs := map[string]*flowcontrolv1.PriorityLevelConfiguration{exempt: level0(exempt, 0), catchAll: level0(catchAll, 5)}
	for _, c := range list {
		specs[c.Name] = c
	}
	sum := 0.0
	for _, c := range specs {
		sum += float64(shares(c))
	}
	levels := make(map[string]*level, len(specs))
	total := 0
	for name, c := range specs {
		l := f.levels[name]
		if l == nil {
			l = &level{name: name, current: -1, guess: firstGuess}
		}
		l.uid, levels[name] = string(c.UID), l
		nominal := int(math.Ceil(float64(f.cfg.Seats) * float64(shares(c)) / sum))
		if nominal != l.nominal {
			l.nominal, l.current = nominal, -1
		}
		total += l.nominal
	}
	for name, l := range levels {
		l.configure(specs[name], total)
	}
	f.levels = levels
}

// level0 is a mandatory level.
func level0(name string, shares int32) *flowcontrolv1.PriorityLevelConfiguration {
	c := &flowcontrolv1.PriorityLevelConfiguration{}
	c.Name = name
	if name == exempt {
		c.Spec.Type = flowcontrolv1.PriorityLevelEnablementExempt
		return c
	}
	c.Spec.Type = flowcontrolv1.PriorityLevelEnablementLimited
	c.Spec.Limited = &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares,
		LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}}
	return c
}

func shares(c *flowcontrolv1.PriorityLevelConfiguration) int32 {
	switch {
	case c.Spec.Limited != nil:
		return or(c.Spec.Limited.NominalConcurrencyShares, 30)
	case c.Spec.Exempt != nil:
		return or(c.Spec.Exempt.NominalConcurrencyShares, 0)
	}
	return 0
}

func or(p *int32, v int32) int32 {
	if p == nil {
		return v
	}
	return *p
}

// configure gives the level its limits and queues. It needs Fair.mu.
func (l *level) configure(c *flowcontrolv1.PriorityLevelConfiguration, total int) {
	lend, borrow := int32(0), (*int32)(nil)
	queues, hand, length := 0, 0, 0
	switch {
	case c.Spec.Limited != nil:
		lend, borrow = or(c.Spec.Limited.LendablePercent, 0), c.Spec.Limited.BorrowingLimitPercent
		if q := c.Spec.Limited.LimitResponse.Queuing; q != nil && c.Spec.Limited.LimitResponse.Type == flowcontrolv1.LimitResponseTypeQueue {
			queues, hand, length = int(q.Queues), int(q.HandSize), int(q.QueueLengthLimit)
		}
	case c.Spec.Exempt != nil:
		lend = or(c.Spec.Exempt.LendablePercent, 0)
	}
	l.least = l.nominal - int(math.Round(float64(l.nominal)*float64(lend)/100))
	l.largest = total
	if borrow != nil {
		l.largest = min(total, l.nominal+int(math.Round(float64(l.nominal)*float64(*borrow)/100)))
	}
	most := maxWidth
	if hand > 0 {
		most = max(1, min(most, l.nominal/hand))
	}
	l.most.Store(int64(most))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exempt = c.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt; l.current < 0 {
		l.current, l.limit = l.nominal, l.nominal
	}
	l.dealt, l.hand, l.length = queues, min(hand, queues), length
	for len(l.queues) < queues {
		l.queues = append(l.queues, &queue{index: len(l.queues)})
	}
	if queues < len(l.queues) && l.drained(queues) {
		l.queues = l.queues[:queues]
	}
	l.serve(time.Now())
}

// drained tells whether the queues from n on are empty.
func (l *level) drained(n int) bool {
	for _, q := range l.queues[n:] {
		if len(q.waits) > 0 || q.running > 0 {
			return false
		}
	}
	return true
}

// fits tells whether there are seats. What is wider than the level gets in when nobody else is.
func (l *level) fits(seats int) bool {
	return l.used+seats <= l.limit || l.used == 0
}

// enter takes seats, or a place in a queue: then it returns what to wait for.
func (l *level) enter(t *Ticket, s Sorted, now time.Time) (*waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(now)
	if l.exempt {
		l.take(t, now)
		return nil, nil
	}
	if l.hand == 0 {
		if !l.fits(t.seats) {
			l.rejected++
			return nil, ConcurrencyLimit
		}
		l.take(t, now)
		return nil, nil
	}
	t.queue = l.choose(hash(s.flow.schema, s.distinguisher()))
	if l.waiting == 0 && l.fits(t.seats) {
		t.queue.begin(l.r)
		l.dispatch(t, now)
		return nil, nil
	}
	if len(t.queue.waits) >= l.length {
		l.rejected++
		return nil, QueueFull
	}
	return l.enqueue(t, s, now), nil
}

// take occupies the ticket's seats. It needs mu.
func (l *level) take(t *Ticket, now time.Time) {
	l.used += t.seats
	l.running++
	l.dispatched++
	l.demand.set(now, float64(l.used+l.wanted))
}

// leave gives the seats back and serves who waits for them.
func (l *level) leave(t *Ticket, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(now)
	l.used -= t.seats
	l.running--
	if q := t.queue; q != nil {
		q.used -= t.seats
		q.running--
		took := now.Sub(t.since).Seconds()
		q.nextR += float64(t.seats) * (took - t.guess) // what was guessed too little, or too much
		l.guess += (took - l.guess) / 16
		l.settle(q)
	}
	l.serve(now)
	l.demand.set(now, float64(l.used+l.wanted))
}

// relimit changes how many seats may be in use.
func (l *level) relimit(limit int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(now)
	l.limit = limit
	l.serve(now)
}

// wait waits until the request is served, refused or given up.
func (l *level) wait(ctx context.Context, w *waiter, patience time.Duration) error {
	t := time.NewTimer(patience)
	defer t.Stop()
	var why Refusal
	select {
	case <-w.served:
		return nil
	case <-t.C:
		why = TimeOut
	case <-ctx.Done():
		why = Cancelled
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.withdraw(w) { // served at the last moment
		return nil
	}
	if l.rejected++; why == TimeOut {
		l.timedOut++
	} else {
		l.cancelled++
	}
	return why
}
