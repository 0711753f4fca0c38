package memory

import (
	"container/heap"
	"time"
)

// expiry holds the keys that have a lifetime, and one timer for the first of them.
type expiry struct {
	deadlines deadlines
	timer     *time.Timer
}

// A deadline says that a key goes at a time if it still has the revision then.
type deadline struct {
	at  time.Time
	key string
	rev int64
}

// add notes a deadline; expire runs when it is reached.
func (e *expiry) add(d deadline, expire func()) {
	heap.Push(&e.deadlines, d)
	if e.deadlines[0] == d {
		e.arm(expire)
	}
}

// due takes out the deadlines that are reached, and sets the timer for the next.
func (e *expiry) due(now time.Time, expire func()) (due []deadline) {
	for len(e.deadlines) > 0 && !e.deadlines[0].at.After(now) {
		due = append(due, heap.Pop(&e.deadlines).(deadline))
	}
	e.arm(expire)
	return due
}

func (e *expiry) arm(expire func()) {
	e.stop()
	if len(e.deadlines) > 0 {
		e.timer = time.AfterFunc(time.Until(e.deadlines[0].at), expire)
	}
}

func (e *expiry) stop() {
	if e.timer != nil {
		e.timer.Stop()
	}
}

// deadlines is a heap, the earliest first.
type deadlines []deadline

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(x any)        { *d = append(*d, x.(deadline)) }
func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}
