package audit

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what waits for one output.
const (
	maxWaiting = 10000
	maxBytes   = 32 << 20
)

// flushLimit bounds how long what is left is written for when the server stops.
const flushLimit = 5 * time.Second

// An Output takes events. Write is called by one goroutine at a time.
type Output interface {
	Name() string
	// Batch is the most events of one Write and how long to wait for that many; 0 does not wait.
	Batch() (size int, wait time.Duration)
	// Write takes events, each encoded as JSON. It may try again on its own; with an error the events are lost.
	Write(ctx context.Context, events [][]byte) error
}

// A queue holds the events that wait for an output.
type queue struct {
	out   Output
	lost  atomic.Int64
	awake chan struct{} // holds one token when there is something new

	mu    sync.Mutex
	list  [][]byte
	bytes int
}

func newQueue(o Output) *queue {
	return &queue{out: o, awake: make(chan struct{}, 1)}
}

// put queues an event, or drops and counts it when there is no room.
func (q *queue) put(line []byte) {
	q.mu.Lock()
	full := len(q.list) >= maxWaiting || q.bytes+len(line) > maxBytes
	if !full {
		q.list, q.bytes = append(q.list, line), q.bytes+len(line)
	}
	q.mu.Unlock()
	if full {
		q.lost.Add(1)
		return
	}
	select {
	case q.awake <- struct{}{}:
	default:
	}
}

func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list)
}

// take removes the oldest events, at most n.
func (q *queue) take(n int) [][]byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.list))
	out := q.list[:n:n]
	if q.list = q.list[n:]; len(q.list) == 0 {
		q.list = nil
	}
	for _, line := range out {
		q.bytes -= len(line)
	}
	return out
}

func (q *queue) run(ctx context.Context, log *slog.Logger) {
	size, wait := q.out.Batch()
	for q.ready(ctx, size, wait) {
		q.write(ctx, log, size)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
	defer cancel()
	for q.waiting() > 0 && last.Err() == nil {
		q.write(last, log, size)
	}
}

// ready waits until there is a batch to write, or a part of one for long enough; false when ctx ended.
func (q *queue) ready(ctx context.Context, size int, wait time.Duration) bool {
	var patience <-chan time.Time
	for {
		n := q.waiting()
		if n >= size || n > 0 && wait == 0 {
			return ctx.Err() == nil
		}
		if n > 0 && patience == nil {
			t := time.NewTimer(wait)
			defer t.Stop()
			patience = t.C
		}
		select {
		case <-ctx.Done():
			return false
		case <-patience:
			return true
		case <-q.awake:
		}
	}
}

func (q *queue) write(ctx context.Context, log *slog.Logger, size int) {
	events := q.take(size)
	if len(events) == 0 {
		return
	}
	if err := q.out.Write(ctx, events); err != nil {
		q.lost.Add(int64(len(events)))
		log.Error("write audit events", "output", q.out.Name(), "lost", len(events), "err", err)
	}
}
