package view

import (
	"cmp"
	"slices"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/store"
)

// A write is one change of one key on its way into the view.
type write struct {
	key      string
	rev      int64
	kind     resource.Kind // nil: of no known kind
	ns, name string
	entry    *Entry // nil: deleted, of no known kind, or broken
	gone     bool
	value    []byte // when there is no entry
	err      error  // why the value could not be decoded
}

// ingest is called by the store's watch.
func (v *View) ingest(b store.Batch) error {
	v.feed.Lock()
	defer v.feed.Unlock()
	known := v.rev.Load()
	writes := make([]write, 0, len(b.Events))
	for _, ev := range b.Events {
		if ev.Rev > known {
			writes = append(writes, v.decode(ev.Key, ev.KV, ev.Rev))
		}
	}
	v.mu.Lock()
	last := int64(0)
	for _, w := range writes {
		if w.rev != last {
			v.seq++
			last = w.rev
		}
		v.apply(w)
	}
	v.finish(max(known, b.Rev))
	return nil
}

// finish ends a change: it moves the view to rev, releases mu and wakes who waits.
func (v *View) finish(rev int64) {
	v.latest.Store(nil) // first: who sees the new revision must not find the old snapshot
	v.rev.Store(rev)
	v.retained.expire()
	v.startAging()
	wakes := append(v.waiters.due(rev), v.waiters.wake(&v.mu)...)
	v.mu.Unlock()
	closeAll(wakes)
}

// apply performs one write and records what it changed. It needs feed and mu.
func (v *View) apply(w write) {
	if w.entry == nil && !w.gone {
		v.hidden.keep(w.key, raw{value: w.value, rev: w.rev, err: w.err})
	} else {
		v.hidden.drop(w.key)
	}
	if w.kind == nil {
		return
	}
	t := v.table(w.kind.Info().GR(), w.kind)
	c := Change{Kind: w.kind, Rev: w.rev, New: w.entry, seq: v.seq}
	if w.entry == nil {
		c.Old = t.remove(w.ns, w.name)
	} else {
		c.Old = t.put(w.entry)
		v.grown(t)
	}
	v.moved = v.moved || t.moved
	if c.Old != nil || c.New != nil {
		v.record(t, c)
	}
}

// reset makes the view hold exactly what was listed at rev. The first time there is nobody to tell; later
// the difference is one change, made of as many as there are objects that differ. It needs feed.
func (v *View) reset(rev int64, all []write) {
	v.mu.Lock()
	v.floor = rev
	v.hidden.reset()
	back := rev < v.rev.Load() // the store was restored from a backup
	v.seq++
	listed := map[*table][]*Entry{}
	for _, w := range all {
		if w.entry == nil {
			v.hidden.keep(w.key, raw{value: w.value, rev: w.rev, err: w.err})
			continue
		}
		t := v.table(w.kind.Info().GR(), w.kind)
		listed[t] = append(listed[t], w.entry)
	}
	var changes []Change
	for _, t := range v.tables {
		changes = append(changes, v.replace(t, rev, listed[t])...)
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Rev, b.Rev) })
	for _, c := range changes {
		if v.loaded && !back {
			v.record(v.tables[v.slots[c.Kind.Info().GR()]], c)
		}
	}
	for _, t := range v.tables {
		if t.log.floor = rev; back {
			v.forget(t, rev)
		}
	}
	v.loaded = true
	v.finish(rev)
}

// replace makes a table hold exactly the given entries and returns what that changed. Entries that it holds
// already stay the same, with their encodings. It needs feed and mu.
func (v *View) replace(t *table, rev int64, entries []*Entry) (changes []Change) {
	keep := make(map[*Entry]bool, len(entries))
	for _, e := range entries {
		old := t.get(e.ns, e.name)
		switch {
		case old != nil && old.Rev == e.Rev:
			keep[old] = true
			continue
		case old != nil && old.Object.GetUID() != e.Object.GetUID():
			changes = append(changes, Change{Kind: t.kind, Rev: e.Rev, Old: t.remove(e.ns, e.name), seq: v.seq})
		}
		keep[e] = true
		changes = append(changes, Change{Kind: t.kind, Rev: e.Rev, Old: t.put(e), New: e, seq: v.seq})
	}
	var gone []*Entry
	t.objects.Ascend(func(e *Entry) bool {
		if !keep[e] {
			gone = append(gone, e)
		}
		return true
	})
	for _, e := range gone {
		changes = append(changes, Change{Kind: t.kind, Rev: rev, Old: t.remove(e.ns, e.name), seq: v.seq})
	}
	v.moved = v.moved || t.moved
	return changes
}
