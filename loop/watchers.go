package loop

import (
	"maps"
	"strings"
	"sync"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A Source tells of one loop's keys. The engine's queues are sources; a loop with a shape of its own keeps a RecordSource.
// Its methods are safe for concurrent use.
type Source interface {
	// Stats sums the loop up; the name is filled in by the caller.
	Stats() Stats
	// Records returns the records of the keys that are not at rest.
	Records() []Record
	// Record returns the record of one key; ok is false when nothing is known of it.
	Record(key Key) (r Record, ok bool)
}

// Watchers collects the sources of running loops, so that others can ask why a key is not at rest. The zero
// value is ready; a nil *Watchers collects nothing. Safe for concurrent use.
type Watchers struct {
	mu    sync.Mutex
	loops map[string]Source
	again chan struct{} // closed when all are to look again; nil: nobody waits
}

// Add makes a loop known by its name until the returned function is called.
func (w *Watchers) Add(name string, s Source) (remove func()) {
	if w == nil {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loops == nil {
		w.loops = map[string]Source{}
	}
	w.loops[name] = s
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.loops[name] == s {
			delete(w.loops, name)
		}
	}
}

// LookAgain has the running loops of the engine look at all of their keys: somebody set the wall clock, and what they wait for may
// be due.
func (w *Watchers) LookAgain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.again != nil {
		close(w.again)
		w.again = nil
	}
}

// asked is closed when LookAgain is called next.
func (w *Watchers) asked() <-chan struct{} {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.again == nil {
		w.again = make(chan struct{})
	}
	return w.again
}

// sources returns what there is now: a source is asked without the lock.
func (w *Watchers) sources() map[string]Source {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.loops)
}

// Stats sums up every running loop, by name.
func (w *Watchers) Stats() (list []Stats) {
	for name, src := range w.sources() {
		s := src.Stats()
		s.Name = name
		list = append(list, s)
	}
	coldsort.Func(list, func(a, b Stats) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Records returns, by loop, the records of the keys that are not at rest.
func (w *Watchers) Records() map[string][]Record {
	all := map[string][]Record{}
	for name, src := range w.sources() {
		if list := src.Records(); len(list) > 0 {
			all[name] = list
		}
	}
	return all
}

// Record returns one key's record in the named loop.
func (w *Watchers) Record(loop string, key Key) (Record, bool) {
	w.mu.Lock()
	src := w.loops[loop]
	w.mu.Unlock()
	if src == nil {
		return Record{}, false
	}
	return src.Record(key)
}
