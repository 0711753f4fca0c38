package loop

import (
	"slices"
	"strings"
	"sync"
)

// Watchers collects the queues of running loops, so that others can ask why a key is not at rest. The zero
// value is ready; a nil *Watchers collects nothing. Safe for concurrent use.
type Watchers struct {
	mu    sync.Mutex
	loops map[string]*queue
}

func (w *Watchers) add(name string, q *queue) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loops == nil {
		w.loops = map[string]*queue{}
	}
	w.loops[name] = q
}

func (w *Watchers) remove(name string, q *queue) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loops[name] == q {
		delete(w.loops, name)
	}
}

// Stats sums up every running loop, by name.
func (w *Watchers) Stats() (list []Stats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, q := range w.loops {
		list = append(list, q.stats(name))
	}
	slices.SortFunc(list, func(a, b Stats) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Records returns, by loop, the records of the keys that are not at rest.
func (w *Watchers) Records() map[string][]Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string][]Record{}
	for name, q := range w.loops {
		if list := q.records(); len(list) > 0 {
			all[name] = list
		}
	}
	return all
}

// Record returns one key's record in the named loop.
func (w *Watchers) Record(loop string, key Key) (Record, bool) {
	w.mu.Lock()
	q := w.loops[loop]
	w.mu.Unlock()
	if q == nil {
		return Record{}, false
	}
	return q.record(key)
}
