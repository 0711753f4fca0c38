package view

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
)

// Adopt makes the view know kinds that joined the set, or new declarations of those that it knows.
//
// Objects of a new kind were held as bytes until now: they appear all at once, as if created at the present
// revision, though their own revisions are older. Entries of a known kind get the new declaration, which is
// no change of any object, so there is no event.
func (v *View) Adopt(list ...resource.Kind) error {
	v.feed.Lock()
	defer v.feed.Unlock()
	if err := v.kinds.Put(list...); err != nil {
		return fmt.Errorf("adopt kinds: %w", err)
	}
	fresh := make(map[string]bool, len(list))
	for _, k := range list {
		if !k.Info().Virtual {
			fresh[k.Info().Prefix] = true
		}
	}
	found := v.readRaw(fresh)
	v.mu.Lock()
	now := v.rev.Load()
	for _, k := range list {
		if k.Info().Virtual {
			continue
		}
		t := v.table(k.Info().GR(), k)
		if t.kind != k {
			t.redeclare(k)
			v.moved = true
			v.waiters.touch(t) // a version may be gone
		}
		if t.objects.Len() == 0 { // what became of it before is not known
			t.log.floor = max(t.log.floor, now)
		}
	}
	v.seq++
	for _, w := range found {
		if w.entry != nil {
			w.rev = now
		}
		v.apply(w)
	}
	v.finish(now)
	return nil
}

// Wake wakes who waits for changes of the kinds, though there are none.
func (v *View) Wake(list ...resource.Kind) {
	v.feed.Lock()
	defer v.feed.Unlock()
	v.mu.Lock()
	for _, k := range list {
		if !k.Info().Virtual {
			v.waiters.touch(v.table(k.Info().GR(), k))
		}
	}
	v.finish(v.rev.Load())
}

// readRaw decodes the values below the prefixes that were held as bytes, in the order of their keys. It needs feed.
func (v *View) readRaw(prefixes map[string]bool) (found []write) {
	var keys []string
	for key := range v.hidden.byKey {
		if k, _, _, ok := v.kinds.ByKey(key); ok && prefixes[k.Info().Prefix] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		r := v.hidden.byKey[key]
		kv := &store.KV{Key: key, Value: r.value}
		if r.unreadable() {
			kv.Err = r.err
		}
		found = append(found, v.decode(key, kv, r.rev))
	}
	return found
}

// A Recaster is a kind whose declarations may read objects in different ways.
type Recaster interface {
	// ReadsAs says whether the declaration before reads all objects as this one does, so that none needs Recast.
	ReadsAs(before resource.Kind) bool
	// Recast returns the object as this declaration reads it: obj itself when there is no difference. It does
	// not change obj.
	Recast(obj resource.Object) resource.Object
}

// redeclare gives all entries another Kind value. Their objects stay, unless the new kind reads them differently.
func (t *table) redeclare(k resource.Kind) {
	old := t.objects
	fresh := newTable(k, t.slot)
	again, _ := k.(Recaster)
	if again != nil && again.ReadsAs(t.kind) {
		again = nil
	}
	old.Ascend(func(e *Entry) bool {
		n := &Entry{Kind: k, Rev: e.Rev, Object: e.Object, ns: e.ns, name: e.name, size: e.size, sum: e.sum}
		if again != nil {
			if n.Object = again.Recast(e.Object); n.Object != e.Object && e.sum != 0 {
				n.sum = digest(n.Object)
			}
		}
		n.enc.budget = e.enc.budget
		fresh.put(n)
		return true
	})
	t.kind, t.objects, t.index, t.terms, t.owned = k, fresh.objects, fresh.index, fresh.terms, fresh.owned
	t.moved, t.changed = true, true
}

// Drop makes the view forget a kind that left the set. Its objects disappear, as if deleted at the present
// revision, and are held as bytes again. The error names objects that could not be turned into bytes; they
// are missing until the next full list.
func (v *View) Drop(gr schema.GroupResource) error {
	v.feed.Lock()
	defer v.feed.Unlock()
	v.kinds.Remove(gr)
	v.mu.Lock()
	now := v.rev.Load()
	t := v.table(gr, nil)
	var gone []*Entry
	t.objects.Ascend(func(e *Entry) bool { gone = append(gone, e); return true })
	v.seq++
	var errs []error
	for _, e := range gone {
		key := t.kind.Info().Key(e.ns, e.name)
		v.apply(write{key: key, rev: now, kind: t.kind, ns: e.ns, name: e.name, gone: true})
		if !v.loaded { // no store stands behind this view
			continue
		}
		value, err := codec.Stored(t.kind, e.Object)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		v.hidden.keep(key, raw{value: value, rev: e.Rev})
	}
	t.kind = nil
	v.waiters.touch(t) // who watches the kind is to see that it is gone, also if it had no objects
	v.finish(now)
	return errors.Join(errs...)
}
