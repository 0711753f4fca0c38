// Package fair shares the server among its callers: API priority and fairness (KEP-1040).
//
// A FlowSchema sorts a request into a flow, its PriorityLevelConfiguration says how many seats the flows of the level
// may take together, and how many requests may wait for one. Levels lend seats that they do not need. Within a level a
// flow waits in one of few queues that its hash chooses, and queues take turns by the work that they have had.
//
//	plan.go    which flow and level a request belongs to
//	level.go   the seats of a level
//	queue.go   its queues and the order in which they are served
//	adjust.go  lending between levels
//	metrics.go upstream's metrics
//	dump.go    upstream's debug pages
package fair

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
)

// lookEvery is the interval between looks whether schemas and levels changed.
const lookEvery = time.Second

// Config says what is shared.
type Config struct {
	Seats int                    // how many requests of one seat are served at once; 0: 600
	Read  func() resource.Reader // knows the FlowSchemas and PriorityLevelConfigurations
	Wait  time.Duration          // how long a request may wait; 0: 15 s
}

// A Fair admits requests. It is safe for concurrent use.
type Fair struct {
	cfg     Config
	plan    atomic.Pointer[plan]
	checked atomic.Int64 // when the plan was compared with the objects, in ns since the epoch

	due atomic.Int64 // when the limits are to be looked at, in the same

	mu       sync.Mutex // held to change the plan or the limits
	levels   map[string]*level
	adjusted time.Time
}

// New returns a Fair that knows the mandatory schemas and levels; it reads the others at the first request.
func New(c Config) *Fair {
	if c.Seats == 0 {
		c.Seats = 600
	}
	if c.Wait == 0 {
		c.Wait = 15 * time.Second
	}
	f := &Fair{cfg: c, levels: map[string]*level{}}
	f.rebuild(nil, nil)
	return f
}

// A Refusal says why a request was not admitted, in upstream's words: queue-full, concurrency-limit, time-out, cancelled.
type Refusal string

// Error is the text of the 429.
func (r Refusal) Error() string { return "the server is too busy for this flow: " + string(r) }

// The refusals.
const (
	QueueFull        Refusal = "queue-full"
	ConcurrencyLimit Refusal = "concurrency-limit"
	TimeOut          Refusal = "time-out"
	Cancelled        Refusal = "cancelled"
)

// A Ticket is a request that was admitted. The zero value holds nothing.
type Ticket struct {
	flow  *flow
	queue *queue // nil when the level has none
	seats int
	since time.Time
	guess float64 // how long it was thought to take when it began, in seconds
}

// A Flow names what a request was sorted into, for the headers of the answer.
type Flow struct{ SchemaUID, LevelUID []string }

// Sort finds the flow of a request.
func (f *Fair) Sort(a *auth.Attributes, now time.Time) Sorted {
	if last := f.checked.Load(); now.UnixNano()-last > int64(lookEvery) && f.checked.CompareAndSwap(last, now.UnixNano()) {
		f.refresh()
	}
	return Sorted{flow: f.plan.Load().find(a), by: a}
}

// Sorted is a request with its flow.
type Sorted struct {
	flow *flow
	by   *auth.Attributes
}

// Flow tells the flow's names.
func (s Sorted) Flow() Flow { return s.flow.names }

// Most is the most seats that a request of the flow can take.
func (s Sorted) Most() int { return int(s.flow.level.most.Load()) }

// Enter waits for seats. The ticket must be given back with Leave. The error is a Refusal.
func (f *Fair) Enter(ctx context.Context, s Sorted, seats int) (Ticket, error) {
	now := time.Now()
	f.lend(now)
	l := s.flow.level
	seats = max(1, min(seats, int(l.most.Load())))
	s.flow.width.Observe(float64(seats))
	t := Ticket{flow: s.flow, seats: seats, since: now}
	w, err := l.enter(&t, s, now)
	end := now
	if w != nil {
		err = l.wait(ctx, w, f.cfg.Wait)
		t, end = w.t, time.Now()
	}
	s.flow.entered(now, end, err)
	if err != nil {
		return Ticket{}, err
	}
	t.flow.take(1, t.seats)
	return t, nil
}

// Leave gives the seats back. It may be called once.
func (f *Fair) Leave(t Ticket) {
	if t.flow == nil {
		return
	}
	now := time.Now()
	t.flow.level.leave(&t, now)
	t.flow.take(-1, t.seats)
	t.flow.duration.Observe(now.Sub(t.since).Seconds())
}
