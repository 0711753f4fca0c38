package scheduler

import (
	"container/heap"
	"time"
)

// How long a pod rests after its n-th try, and how long at most it waits for a change that could help.
const (
	firstRest = time.Second
	longRest  = 10 * time.Second
	longPark  = 5 * time.Minute
)

// queue holds the tasks that want a node: active ones by priority, then age; resting ones by when they are due;
// parked ones, with
// their classes, until a change could help them.
type queue struct {
	active taskHeap
	rest   taskHeap
	seq    int64
}

func newQueue() *queue {
	return &queue{active: taskHeap{less: urgent}, rest: taskHeap{less: sooner}}
}

// urgent is the plugin PrioritySort.
func urgent(a, b *task) bool {
	if a.class.priority != b.class.priority {
		return a.class.priority > b.class.priority
	}
	if !a.since.Equal(b.since) {
		return a.since.Before(b.since)
	}
	return a.seq < b.seq
}

func sooner(a, b *task) bool {
	if !a.due.Equal(b.due) {
		return a.due.Before(b.due)
	}
	return a.seq < b.seq
}

// push makes a task active.
func (q *queue) push(t *task, now time.Time) {
	q.remove(t)
	if t.since.IsZero() {
		q.seq++
		t.since, t.seq = now, q.seq
	}
	t.stage = active
	heap.Push(&q.active, t)
}

// remove takes a task out of wherever it waits.
func (q *queue) remove(t *task) {
	switch t.stage {
	case active:
		heap.Remove(&q.active, t.index)
	case resting:
		heap.Remove(&q.rest, t.index)
	case parked:
		heap.Remove(&t.class.waiting, t.index)
		if t.class.waiting.Len() == 0 {
			delete(t.class.st.waiting, t.class)
		}
	}
	t.stage = placed
}

// park makes a task wait for a change; due is when its rest is over if one comes before.
func (q *queue) park(t *task, now time.Time) {
	q.remove(t)
	t.stage, t.due, t.strict, t.parkedAt = parked, now.Add(pause(t.attempts)), false, now
	heap.Push(&t.class.waiting, t)
	t.class.st.waiting[t.class] = true
}

// wake lets a parked task try again, at once or when its rest is over.
func (q *queue) wake(t *task, now time.Time) {
	if t.stage != parked {
		return
	}
	if !t.due.After(now) {
		q.push(t, now)
		return
	}
	q.remove(t)
	t.stage = resting
	heap.Push(&q.rest, t)
}

// retry makes a task rest after an error; it is not tried before its time.
func (q *queue) retry(t *task, now time.Time) {
	q.remove(t)
	t.stage, t.due, t.strict = resting, now.Add(pause(t.attempts)), true
	heap.Push(&q.rest, t)
}

// pop hands out the next task. When none is active, one that rests though a change may have helped it comes early.
func (q *queue) pop(now time.Time) *task {
	for q.rest.Len() > 0 && !q.rest.list[0].due.After(now) {
		q.push(q.rest.list[0], now)
	}
	if q.active.Len() == 0 {
		if q.rest.Len() == 0 || q.rest.list[0].strict {
			return nil
		}
		q.push(q.rest.list[0], now)
	}
	t := heap.Pop(&q.active).(*task)
	t.stage = placed
	return t
}

// wait is how long until pop may have something, at most the given time.
func (q *queue) wait(now time.Time, most time.Duration) time.Duration {
	if q.rest.Len() > 0 {
		most = min(most, max(q.rest.list[0].due.Sub(now), 0))
	}
	return most
}

// backlog is how many tasks are due, and since when the most urgent of them is.
func (q *queue) backlog() (n int, since time.Time) {
	if n = q.active.Len(); n > 0 {
		since = q.active.list[0].since
	}
	return n, since
}

// pause doubles with every try in vain.
func pause(attempts int) time.Duration {
	return min(firstRest<<min(max(attempts-1, 0), 10), longRest)
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
