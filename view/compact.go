package view

import "github.com/kloop-dev/kloop/resource"

// A Compacter is a kind that keeps many objects together in less memory than each for itself.
type Compacter interface {
	// Compact does so with objects of the kind, which come in the order of their keys. What they say stays the same, and
	// they may be read meanwhile.
	Compact(objs []resource.Object)
}

// Compact has the newest objects take less memory, which is worth its while after many writes. Reads and writes go on
// meanwhile.
func (v *View) Compact() {
	for _, f := range v.Snapshot().tables {
		if f == nil || f.objects.Len() == 0 {
			continue
		}
		first, _ := f.objects.Min()
		k, ok := first.Kind.(Compacter)
		if !ok {
			continue
		}
		objs := make([]resource.Object, 0, f.objects.Len())
		f.objects.Ascend(func(e *Entry) bool {
			objs = append(objs, e.Object)
			return true
		})
		k.Compact(objs)
	}
}
