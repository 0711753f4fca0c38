package view

import (
	"cmp"

	"github.com/kloop-dev/kloop/resource"
)

// Replace makes the view hold exactly these objects of the kind, as a list at revision rev told them. Cursors
// receive the difference. The view owns the objects from then on; they carry their resourceVersion.
func (v *View) Replace(k resource.Kind, rev int64, objects []resource.Object) {
	v.feed.Lock()
	defer v.feed.Unlock()
	entries := make([]*Entry, len(objects))
	for i, obj := range objects {
		entries[i] = v.entry(k, obj.GetNamespace(), obj.GetName(), cmp.Or(resource.Revision(obj), rev), obj)
	}
	v.mu.Lock()
	t := v.table(k.Info().GR(), k)
	first, back := t.rev == 0, rev < t.rev
	v.seq++
	changes := v.replace(t, rev, entries)
	switch {
	case back:
		v.forget(t, rev)
	default:
		for _, c := range changes {
			v.record(t, c)
		}
	}
	if first || back {
		t.log.floor = rev
	}
	t.rev = rev
	v.moveOn(t)
}

// Update tells of one write at revision rev: obj is the new state, or the last one when deleted. Old news are
// ignored.
func (v *View) Update(k resource.Kind, rev int64, obj resource.Object, deleted bool) {
	v.feed.Lock()
	defer v.feed.Unlock()
	ns, name := obj.GetNamespace(), obj.GetName()
	var e *Entry
	if !deleted {
		e = v.entry(k, ns, name, rev, obj)
	}
	v.mu.Lock()
	t := v.table(k.Info().GR(), k)
	if old := t.get(ns, name); rev < t.rev || old != nil && rev <= old.Rev {
		v.mu.Unlock()
		return
	}
	v.seq++
	v.apply(write{rev: rev, kind: k, ns: ns, name: name, entry: e, gone: deleted})
	t.rev = rev
	v.moveOn(t)
}

// Advance says that the kind did not change up to revision rev, as a bookmark does.
func (v *View) Advance(k resource.Kind, rev int64) {
	v.feed.Lock()
	defer v.feed.Unlock()
	v.mu.Lock()
	t := v.table(k.Info().GR(), k)
	t.rev = max(t.rev, rev)
	v.moveOn(t)
}

// moveOn ends a change of a table that has a revision of its own. It releases mu.
func (v *View) moveOn(t *table) {
	t.moved, v.moved = true, true
	v.finish(v.rev.Load())
}
