package scheduler

import (
	"container/heap"
	"time"
)

// Backoff after the n-th try, and how long at most a pod waits for a change that could help.
const (
	initialBackoff   = time.Second
	maxBackoff       = 10 * time.Second
	maxUnschedulable = 5 * time.Minute
)

// queue is the scheduling queue: the tasks that want a node. Active ones go by priority, then age; those in backoff by the second in which
// it ends, then as active ones; unschedulable ones wait, with their classes, until a change could help them.
type queue struct {
	active  taskHeap
	backoff [2]taskHeap // helped by a change, maybe; failed by an error, so not to be tried early
	seq     int64
	meter   *meter
}

func newQueue() *queue {
	return &queue{active: taskHeap{less: urgent}, backoff: [2]taskHeap{{less: backoffEndsFirst}, {less: backoffEndsFirst}}}
}

// backoffOf is the part of the queue in which the task backs off.
func (q *queue) backoffOf(t *task) *taskHeap {
	if t.strict {
		return &q.backoff[1]
	}
	return &q.backoff[0]
}

// urgent is the plugin PrioritySort.
func urgent(a, b *task) bool {
	if a.class.priority != b.class.priority {
		return a.class.priority > b.class.priority
	}
	if !a.queuedAt.Equal(b.queuedAt) {
		return a.queuedAt.Before(b.queuedAt)
	}
	return a.seq < b.seq
}

// window is the unit of backoff: what ends in the same one ends together, so that priorities count (KEP-5142).
const window = time.Second

func backoffEnd(t *task) time.Time { return t.backoffUntil.Truncate(window) }

func backoffEndsFirst(a, b *task) bool {
	if x, y := backoffEnd(a), backoffEnd(b); !x.Equal(y) {
		return x.Before(y)
	}
	return urgent(a, b)
}

// push makes a task active.
func (q *queue) push(t *task, now time.Time) {
	q.remove(t)
	if t.queuedAt.IsZero() {
		q.seq++
		t.queuedAt, t.seq = now, q.seq
		q.meter.arrived("active", "UnscheduledPodAdd")
	}
	t.stage = active
	heap.Push(&q.active, t)
}

// remove takes a task out of wherever it waits.
func (q *queue) remove(t *task) {
	switch t.stage {
	case active:
		heap.Remove(&q.active, t.index)
	case inBackoff:
		heap.Remove(q.backoffOf(t), t.index)
	case unschedulable:
		heap.Remove(&t.class.waiting, t.index)
		if t.class.waiting.Len() == 0 {
			t.class.st.unwait(t.class)
		}
	}
	t.stage = placed
}

// addUnschedulable makes a task wait for a change; its backoff still ends first if one comes before.
func (q *queue) addUnschedulable(t *task, now time.Time) {
	q.remove(t)
	t.stage, t.backoffUntil, t.strict, t.unschedulableSince = unschedulable, now.Add(backoffFor(t.attempts)), false, now
	heap.Push(&t.class.waiting, t)
	t.class.st.wait(t.class, t.wakes)
	q.meter.arrived("unschedulable", "ScheduleAttemptFailure")
}

// activate lets an unschedulable task try again, at once or when its backoff is over.
func (q *queue) activate(t *task, now time.Time) {
	if t.stage != unschedulable {
		return
	}
	if !backoffEnd(t).After(now) {
		q.push(t, now)
		q.meter.arrived("active", "WildCardEvent")
		return
	}
	q.remove(t)
	q.meter.arrived("backoff", "WildCardEvent")
	t.stage = inBackoff
	heap.Push(q.backoffOf(t), t)
}

// addBackoff makes a task wait after an error; it is not tried before its time.
func (q *queue) addBackoff(t *task, now time.Time) {
	q.remove(t)
	t.stage, t.backoffUntil, t.strict = inBackoff, now.Add(backoffFor(t.attempts)), true
	heap.Push(q.backoffOf(t), t)
	q.meter.arrived("backoff", "ScheduleAttemptFailure")
}

// retry makes a task that waits for a change wait for a time instead: what was to help it could not be done. One that went meanwhile, or
// was tried again, is left alone.
func (q *queue) retry(t *task, now time.Time) {
	if t.stage == unschedulable {
		q.addBackoff(t, now)
	}
}

// pop hands out the next task. When none is active, one whose backoff is not over comes early, if a change may have helped it.
func (q *queue) pop(now time.Time) *task {
	for i := range q.backoff {
		for b := &q.backoff[i]; b.Len() > 0 && !backoffEnd(b.list[0]).After(now); {
			q.comeBack(b.list[0], now)
		}
	}
	if early := &q.backoff[0]; q.active.Len() == 0 {
		if early.Len() == 0 {
			return nil
		}
		q.comeBack(early.list[0], now)
	}
	t := heap.Pop(&q.active).(*task)
	t.stage = placed
	return t
}

// comeBack makes a task active that backed off.
func (q *queue) comeBack(t *task, now time.Time) {
	q.push(t, now)
	q.meter.arrived("active", "PopFromBackoffQ")
}

// wait is the time until pop may have something, at most the given one.
func (q *queue) wait(now time.Time, most time.Duration) time.Duration {
	for _, b := range q.backoff {
		if b.Len() > 0 {
			most = min(most, max(backoffEnd(b.list[0]).Sub(now), 0))
		}
	}
	return most
}

// backlog counts the tasks that are due, and says since when the most urgent of them is.
func (q *queue) backlog() (n int, since time.Time) {
	if n = q.active.Len(); n > 0 {
		since = q.active.list[0].queuedAt
	}
	return n, since
}

// backoffFor doubles with every try in vain.
func backoffFor(attempts int) time.Duration {
	return min(initialBackoff<<min(max(attempts-1, 0), 10), maxBackoff)
}

// taskHeap orders tasks.
type taskHeap struct {
	list []*task
	less func(a, b *task) bool
}

func (h *taskHeap) Len() int           { return len(h.list) }
func (h *taskHeap) Less(i, j int) bool { return h.less(h.list[i], h.list[j]) }
func (h *taskHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].index, h.list[j].index = i, j
}
func (h *taskHeap) Push(x any) {
	t := x.(*task)
	t.index = len(h.list)
	h.list = append(h.list, t)
}
func (h *taskHeap) Pop() any {
	last := len(h.list) - 1
	t := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	return t
}
