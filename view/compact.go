package view

import "github.com/kloop-dev/kloop/resource"

// A Compacter is a kind that keeps many objects together in less memory than each for itself.
type Compacter interface {
	// Compact does so with objects of the kind, which come in the order of their keys. What they say stays the same, and
	// they may be read meanwhile.
	Compact(objs []resource.Object)
}

// minGrown is how many new objects of a kind are worth a look at all of them.
const minGrown = 2048

// Compact has the newest objects take less memory, which is worth its while when a burst of work is over. Reads and writes
// go on meanwhile.
func (v *View) Compact() {
	v.compacting.Lock()
	defer v.compacting.Unlock()
	for _, f := range v.Snapshot().tables {
		f.compact()
	}
}

func (f *frozen) compact() {
	if f == nil || f.objects.Len() == 0 {
		return
	}
	first, _ := f.objects.Min()
	k, ok := first.Kind.(Compacter)
	if !ok {
		return
	}
	objs := make([]resource.Object, 0, f.objects.Len())
	f.objects.Ascend(func(e *Entry) bool {
		objs = append(objs, e.Object)
		return true
	})
	k.Compact(objs)
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
		v.Snapshot().tables[t.slot].compact()
	}()
}
