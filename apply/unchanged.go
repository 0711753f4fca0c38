package apply

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/resource"
)

// lastApplied is the annotation that kubectl's own apply keeps, and that applying as "kubectl" brings up to date.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// appliesNothing says that the patch owns exactly what its manager owns already, with the values that old has:
// most applies are of this sort, and this is some ten times as fast as finding out by merging. It answers no
// when in doubt.
func (t *Tracker) appliesNothing(w *Write, old resource.Object, doc map[string]any) bool {
	list, mine := appliedBefore(w, old, doc)
	if mine < 0 {
		return false
	}
	set, ok := t.claims(w, old, doc, false)
	set = set.withoutResets(w)
	return ok && len(set) > 0 && bytes.Equal(rawFields(&list[mine]), set.appendJSON(make([]byte, 0, 512)))
}

// appliedBefore returns the books of old and which entry is that of what the manager applied; -1 if there is none, or
// the case is one for the library.
func appliedBefore(w *Write, old resource.Object, doc map[string]any) (list []metav1.ManagedFieldsEntry, mine int) {
	if old == nil || w.Sub == "scale" ||
		w.Manager == "kubectl" && old.GetAnnotations()[lastApplied] != "" {
		return nil, -1
	}
	if gv, kind := w.GVK.ToAPIVersionAndKind(); doc["apiVersion"] != gv || doc["kind"] != kind {
		return nil, -1
	}
	list = old.GetManagedFields()
	if !wellKept(w, list) {
		return nil, -1
	}
	return list, slices.IndexFunc(list, func(e metav1.ManagedFieldsEntry) bool {
		return e.Operation == metav1.ManagedFieldsOperationApply && e.Manager == w.Manager && e.Subresource == w.Sub
	})
}

// claims returns the fields that a decoded patch sets. ok is false if it would change any of them, unless write allows
// to: then the values go into obj, and what changed is marked so.
func (t *Tracker) claims(w *Write, obj resource.Object, doc map[string]any, write bool) (set, bool) {
	doc, ok := withoutOurs(doc, obj)
	if !ok || len(doc) == 0 {
		return nil, false
	}
	if w.Kind.Info().Custom {
		live, ok := obj.(runtime.Unstructured)
		if !ok {
			return nil, false
		}
		typ := t.types.of(w.GVK)
		u := untyped{schema: typ.Schema, write: write}
		_, set := u.claims(typ.TypeRef, doc, live.UnstructuredContent())
		for i := range set {
			if set[i].step.text == "f:metadata" { // nobody owns it as a whole
				if set[i].marked = 0; len(set[i].sub) == 0 {
					return slices.Delete(set, i, i+1), !u.lost
				}
			}
		}
		return set, !u.lost
	}
	plan := planOf(w, nil, obj)
	if plan == nil {
		return nil, false
	}
	d := docWalk{write: write}
	_, set := d.value(plan, doc, reflect.ValueOf(obj))
	return set, !d.lost
}

// withoutOurs takes out what nobody owns: the type and the name. ok is false if the name is another one.
func withoutOurs(doc map[string]any, old resource.Object) (out map[string]any, ok bool) {
	out = maps.Clone(doc)
	delete(out, "apiVersion")
	delete(out, "kind")
	meta, _ := out["metadata"].(map[string]any)
	if ns, given := meta["namespace"]; given && ns != old.GetNamespace() || meta["name"] != old.GetName() {
		return nil, false
	}
	for _, name := range oursMeta[2:] {
		if _, given := meta[name]; given {
			return nil, false
		}
	}
	meta = maps.Clone(meta)
	delete(meta, "name")
	delete(meta, "namespace")
	if out["metadata"] = meta; len(meta) == 0 {
		delete(out, "metadata")
	}
	return out, true
}

// A docWalk finds the fields that a decoded patch sets, as long as they have the values of the live object.
type docWalk struct {
	lost  bool // a value differs, or something came up that only the library knows
	write bool // a value that differs is written instead
}

// value returns what the value v owns: its own place, and what is below it.
func (d *docWalk) value(n *node, v any, live reflect.Value) (bits, set) {
	live = deref(live)
	if d.lost || v == nil || !live.IsValid() || isNull(live) {
		d.lost = true
		return 0, nil
	}
	switch n.op {
	case opLeaf:
		if same(v, live) {
			return member, nil
		}
		d.lost = !d.write
		return member | changed, nil // the caller writes it
	case opStruct, opMap:
		if m, ok := v.(map[string]any); ok {
			if len(m) == 0 {
				return member, nil
			}
			return 0, d.entries(n, m, live)
		}
	case opSet, opKeyed:
		if l, ok := v.([]any); ok {
			return 0, d.items(n, l, live)
		}
	}
	d.lost = true
	return 0, nil
}

func (d *docWalk) entries(n *node, m map[string]any, live reflect.Value) set {
	out := make(set, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		it := item{step: step{text: "f:" + name}}
		if n.op == opMap {
			if !isPlain(name) {
				d.lost = true
			}
			it.marked, it.sub = d.value(n.elem, m[name], entry(live, name))
			it.marked |= member
			if it.marked&changed != 0 {
				d.assignEntry(live, name, m[name])
			}
		} else {
			at, ok := slices.BinarySearchFunc(n.fields, name, func(f fieldNode, name string) int { return compareAll(f.name, name) })
			if !ok {
				d.lost = true
				return nil
			}
			f := &n.fields[at]
			x := fieldAt(live, f.index)
			switch {
			case f.omit == nil || !f.omit(x):
				if it.marked, it.sub = d.value(f.node, m[name], x); it.marked&changed != 0 {
					d.assign(x, m[name])
				}
			case f.node.op == opLeaf && isZero(m[name], x):
				it.marked = member // false, 0 or "" is said and not kept
			default:
				d.lost = true
				return nil
			}
		}
		if it.marked != 0 || len(it.sub) > 0 {
			out = append(out, it)
		}
	}
	return out
}

// items matches the items of a list with those of the live one, which must stand in the same order.
func (d *docWalk) items(n *node, l []any, live reflect.Value) set {
	var w walk
	have := w.elements(n, live)
	out, before := make(set, 0, len(l)), -1
	for _, v := range l {
		keys := d.keys(n, v)
		at, ok := slices.BinarySearchFunc(have, keys, func(e element[reflect.Value], keys []key) int { return compareKeys(e.keys, keys) })
		if d.lost || w.lost || !ok || have[at].index <= before {
			d.lost = true
			return nil
		}
		before = have[at].index
		marked, sub := d.value(n.elem, v, have[at].v)
		if marked&changed != 0 {
			d.assign(have[at].v, v)
		}
		out = append(out, item{step{text: keyText(n.op == opSet, keys), keys: keys}, marked | member, sub})
	}
	slices.SortFunc(out, func(a, b item) int { return a.step.compare(&b.step) })
	return out
}

func (d *docWalk) keys(n *node, v any) (keys []key) {
	if n.op == opSet {
		return []key{{val: d.scalar(v)}}
	}
	m, _ := v.(map[string]any)
	for i := range n.keys {
		k := &n.keys[i]
		if x, ok := m[k.name]; ok {
			keys = append(keys, key{k.name, d.scalar(x)})
		} else if k.isDef {
			keys = append(keys, key{k.name, k.def})
		} else if k.omit == nil {
			d.lost = true
		}
	}
	if len(keys) == 0 {
		d.lost = true
	}
	return keys
}

func (d *docWalk) scalar(v any) scalar {
	switch v := v.(type) {
	case string:
		if isPlain(v) {
			return scalar{kind: str, s: v}
		}
	case int64:
		return scalar{kind: number, n: v}
	}
	d.lost = true
	return scalar{}
}
