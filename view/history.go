package view

import (
	"slices"
	"sort"
	"time"
	"weak"
)

// The history keeps the last changes of all kinds. Each table logs its own; the history knows their common
// order and drops the oldest when there are too many. So a reader of a quiet kind never falls behind because
// another kind is busy.
type history struct {
	order  []*table // one per change, oldest first, from head on
	head   int
	weight int64 // of the replaced objects, in stored bytes
	pushed int64 // changes ever recorded
	shed   int64 // bytes that were dropped since the burst began
	marks  []mark

	encoded *budget // gets back what encodings of dropped objects take
}

// A mark says how many changes had been recorded at a time.
type mark struct {
	at     time.Time
	pushed int64
}

// A log is the history of one kind: chunks that are only ever appended to, so that readers share them.
type log struct {
	chunks [][]Change
	head   int    // of the first chunk: changes before it are dropped
	lost   uint64 // seq of the last change that was dropped
	floor  int64  // nothing is known of writes up to this revision
}

// Chunks start small, as most kinds are quiet.
const (
	firstChunk = 8
	fullChunk  = 256
)

// push appends a change. Changes of one seq stay in one chunk.
func (l *log) push(c Change) {
	n := len(l.chunks)
	if n == 0 {
		l.chunks = append(l.chunks, make([]Change, 0, firstChunk))
		n = 1
	}
	tail := l.chunks[n-1]
	if len(tail) == cap(tail) && len(tail) > 0 && tail[len(tail)-1].seq != c.seq {
		l.chunks = append(l.chunks, append(make([]Change, 0, min(2*cap(tail), fullChunk)), c))
		return
	}
	l.chunks[n-1] = append(tail, c)
}

// shift drops the oldest change.
func (l *log) shift() Change {
	c := l.chunks[0][l.head]
	l.head++
	l.lost, l.floor = c.seq, max(l.floor, c.Rev)
	if l.head == len(l.chunks[0]) {
		l.chunks[0], l.chunks, l.head = nil, l.chunks[1:], 0
	}
	return c
}

// after returns the changes behind seq that lie together, and whether there are more.
func (l *log) after(seq uint64) (run []Change, more bool) {
	n := len(l.chunks)
	if n == 0 || l.chunks[n-1][len(l.chunks[n-1])-1].seq <= seq {
		return nil, false
	}
	i := sort.Search(n, func(i int) bool { return l.chunks[i][len(l.chunks[i])-1].seq > seq })
	run = l.live(i)
	j := sort.Search(len(run), func(j int) bool { return run[j].seq > seq })
	return run[j:], i < n-1
}

// live returns what is not dropped of a chunk, closed for appending.
func (l *log) live(i int) []Change {
	c := l.chunks[i]
	if i == 0 {
		c = c[l.head:]
	}
	return c[:len(c):len(c)]
}

// all returns the changes, in runs.
func (l *log) all() [][]Change {
	runs := make([][]Change, len(l.chunks))
	for i := range runs {
		runs[i] = l.live(i)
	}
	return runs
}

// behind returns the first change with a revision above rev.
func (l *log) behind(rev int64) (Change, bool) {
	i := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i][len(l.chunks[i])-1].Rev > rev })
	if i == len(l.chunks) {
		return Change{}, false
	}
	run := l.live(i)
	j := sort.Search(len(run), func(j int) bool { return run[j].Rev > rev })
	return run[j], true
}

// at returns the change that made revision rev.
func (l *log) at(rev int64) (Change, bool) {
	c, ok := l.behind(rev - 1)
	return c, ok && c.Rev == rev
}

// record logs a change and drops what is too old. It needs mu.
func (v *View) record(t *table, c Change) {
	t.log.push(c)
	v.waiters.touch(t)
	h := &v.history
	h.order = append(h.order, t)
	h.pushed++
	h.weight += c.weight()
	for h.len() > v.cfg.Changes || h.weight > v.cfg.Bytes && h.len() > 1 {
		h.dropOldest()
	}
	if !v.shedding && h.large(&v.cfg) {
		v.shedding = true
		later(shedEvery, v, shed)
	}
}

// age drops what is older than the history shall be, so that a burst of changes does not stay in memory for as
// long as the cluster is quiet. It reports whether it has to come again.
func (v *View) age() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	h, now := &v.history, time.Now()
	h.marks = append(h.marks, mark{now, h.pushed})
	for len(h.marks) > 0 && now.Sub(h.marks[0].at) >= v.cfg.Age {
		for h.pushed-int64(h.len()) < h.marks[0].pushed && h.len() > 0 {
			h.dropOldest()
		}
		h.marks = h.marks[1:]
	}
	v.retained.expire()
	v.aging = h.len() > 0 || len(v.retained.list) > 0
	if !v.aging {
		h.marks = nil
	}
	return v.aging
}

// After a burst of changes the history is cut to a small part of what it may hold: the memory is worth more than that a client
// which was away for longer can go on without listing again. Changes that are fresh stay.
const (
	fresh     = 40 * time.Second
	shedEvery = 10 * time.Second
	shedTo    = 32 // that part of the bounds
)

// large says that there is something to shed.
func (h *history) large(c *Config) bool {
	return h.len() > c.Changes/shedTo || h.weight > c.Bytes/shedTo
}

// shed drops what is not fresh of a large history. It reports whether it has to come again.
func shed(v *View) bool {
	v.mu.Lock()
	h, now := &v.history, time.Now()
	before := h.weight
	h.marks = append(h.marks, mark{now, h.pushed})
	for _, m := range h.marks {
		for now.Sub(m.at) >= fresh && h.large(&v.cfg) && h.pushed-int64(h.len()) < m.pushed {
			h.dropOldest()
		}
	}
	h.shed += before - h.weight
	v.shedding = h.large(&v.cfg)
	again, much := v.shedding, h.shed > v.cfg.Bytes/shedTo
	if !again {
		h.shed = 0
	}
	v.mu.Unlock()
	if much && !again && v.cfg.Shed != nil { // not while the burst goes on
		v.cfg.Shed()
	}
	return again
}

// startAging needs mu.
func (v *View) startAging() {
	if !v.aging && (v.history.len() > 0 || len(v.retained.list) > 0) {
		v.aging = true
		later(time.Minute, v, (*View).age)
	}
}

// later calls tick every d until it returns false. It does not keep p alive.
func later[T any](d time.Duration, p *T, tick func(*T) bool) {
	w := weak.Make(p)
	time.AfterFunc(d, func() {
		if p := w.Value(); p != nil && tick(p) {
			later(d, p, tick)
		}
	})
}

func (h *history) len() int { return len(h.order) - h.head }

func (c Change) weight() int64 {
	if c.Old == nil {
		return 0
	}
	return int64(c.Old.size)
}

// dropOldest drops the oldest change of all kinds.
func (h *history) dropOldest() {
	t := h.order[h.head]
	h.order[h.head] = nil
	h.head++
	if h.head > len(h.order)/2 && h.head > fullChunk {
		h.order = append([]*table(nil), h.order[h.head:]...)
		h.head = 0
	}
	c := t.log.shift()
	h.weight -= c.weight()
	if c.Old != nil {
		h.encoded.forget(c.Old)
	}
}

// forget drops the history of a table: cursors must list again, and so must who knows less than floor. It
// needs mu.
func (v *View) forget(t *table, floor int64) {
	h := &v.history
	h.order = slices.DeleteFunc(h.order[h.head:], func(x *table) bool { return x == t })
	h.head = 0
	for len(t.log.chunks) > 0 {
		c := t.log.shift()
		h.weight -= c.weight()
	}
	v.seq++
	t.log.lost, t.log.floor = v.seq, floor
	v.waiters.touch(t)
}
