package view

import "github.com/kloop-dev/kloop/resource"

// A Compacter is a kind that keeps many objects together in less memory than each for itself.
type Compacter interface {
	// Compact does so with objects of the kind. What they say stays the same, and they may be read meanwhile.
	Compact(objs []resource.Object)
}

// minGrown is the number of new objects of a kind that are worth a look at all of them.
const minGrown = 2048

// Compact has the objects take less memory, those in the history too, which is worth its while when a burst of work is over.
// Reads and writes go on meanwhile.
func (v *View) Compact() {
	v.compacting.Lock()
	defer v.compacting.Unlock()
	for slot := range v.Snapshot().tables {
		v.compact(slot)
	}
}

// compact needs compacting.
func (v *View) compact(slot int) {
	v.mu.Lock()
	k, ok := v.tables[slot].kind.(Compacter)
	if !ok {
		v.mu.Unlock()
		return
	}
	now := v.snapshot().tables[slot]
	past := v.tables[slot].log.all()
	v.mu.Unlock()
	if now == nil { // somebody waits for objects, and there never were any
		return
	}
	objs := make([]resource.Object, 0, now.objects.Len())
	now.objects.Ascend(func(e *Entry) bool {
		objs = append(objs, e.Object)
		return true
	})
	k.Compact(objs)
	objs = objs[:0]
	for _, run := range past {
		for _, c := range run {
			if c.Old != nil {
				objs = append(objs, c.Old.Object)
			}
		}
	}
	k.Compact(objs) // apart, as they go before the others do
}

// grown notes that a table got an entry, and has it compacted when a third of them is new: so that is little work for each
// write, and what is left over of former times is bounded by what there is. It needs mu.
func (v *View) grown(t *table) {
	if _, ok := t.kind.(Compacter); !ok {
		return
	}
	if t.grown++; t.grown < max(minGrown, t.objects.Len()/3) || !v.compacting.TryLock() {
		return
	}
	t.grown = 0
	go func() {
		defer v.compacting.Unlock()
		v.compact(t.slot)
	}()
}
