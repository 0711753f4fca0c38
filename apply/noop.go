package apply

import (
	"bytes"
	"encoding/base64"
	"maps"
	"reflect"
	"slices"
	"time"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/kloop-dev/kloop/resource"
)

// lastApplied is the annotation that kubectl's own apply keeps, and that applying as "kubectl" brings up to date.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// appliesNothing says that the patch owns exactly what its manager owns already, with the values that old has:
// most applies are of this sort, and this is some ten times as fast as finding out by merging. It answers no
// when in doubt.
func appliesNothing(w *Write, old resource.Object, doc map[string]any) bool {
	if old == nil || w.Sub == "scale" || w.Manager == "kubectl" && old.GetAnnotations()[lastApplied] != "" {
		return false
	}
	plan := planOf(w, nil, old)
	if plan == nil || !wellKept(w, old.GetManagedFields()) {
		return false
	}
	if gv, kind := w.GVK.ToAPIVersionAndKind(); doc["apiVersion"] != gv || doc["kind"] != kind {
		return false
	}
	var d docWalk
	_, set := d.value(plan, d.withoutOurs(doc, old), reflect.ValueOf(old))
	for _, p := range resetPaths(w.Kind.Info(), w.Sub) {
		set = set.without(resetSteps(p))
	}
	if d.lost || len(set) == 0 {
		return false
	}
	for _, e := range old.GetManagedFields() {
		if e.Operation == metav1.ManagedFieldsOperationApply && e.Manager == w.Manager && e.Subresource == w.Sub {
			return bytes.Equal(rawFields(&e), set.appendJSON(make([]byte, 0, 512)))
		}
	}
	return false
}

// A docWalk finds the fields that a decoded patch sets, as long as they have the values of the live object.
type docWalk struct {
	lost bool // a value differs, or something came up that only the library knows
}

// withoutOurs takes out what nobody owns: the type and the name.
func (d *docWalk) withoutOurs(doc map[string]any, old resource.Object) map[string]any {
	out := maps.Clone(doc)
	delete(out, "apiVersion")
	delete(out, "kind")
	if meta, ok := out["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		if ns, ok := meta["namespace"]; ok && ns != old.GetNamespace() || meta["name"] != old.GetName() {
			d.lost = true
		}
		delete(meta, "name")
		delete(meta, "namespace")
		if out["metadata"] = meta; len(meta) == 0 {
			delete(out, "metadata")
		}
	}
	return out
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
		if !same(v, live) {
			d.lost = true
		}
		return member, nil
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
			_, it.sub = d.value(n.elem, m[name], entry(live, name))
			it.marked = member
		} else {
			at, ok := slices.BinarySearchFunc(n.fields, name, func(f fieldNode, name string) int { return compareAll(f.name, name) })
			if !ok {
				d.lost = true
				return nil
			}
			f := &n.fields[at]
			x := fieldAt(live, f.index)
			if f.omit != nil && f.omit(x) {
				d.lost = true
				return nil
			}
			it.marked, it.sub = d.value(f.node, m[name], x)
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
		at, ok := slices.BinarySearchFunc(have, keys, func(e element, keys []key) int { return compareKeys(e.keys, keys) })
		if d.lost || w.lost || !ok || have[at].index <= before {
			d.lost = true
			return nil
		}
		before = have[at].index
		_, sub := d.value(n.elem, v, have[at].v)
		out = append(out, item{step{text: keyText(n.op == opSet, keys), keys: keys}, member, sub})
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

// same compares a decoded value with a live one, down to the bottom.
func same(v any, live reflect.Value) bool {
	live = deref(live)
	if v == nil || isNull(live) {
		return v == nil && isNull(live)
	}
	if _, ok := scalarTypes[live.Type()]; ok {
		return sameSpecial(v, live)
	}
	entry := value.TypeReflectEntryOf(live.Type())
	if entry.CanConvertToUnstructured() {
		return false
	}
	switch v := v.(type) {
	case string:
		if live.Kind() == reflect.Slice && live.Type().Elem().Kind() == reflect.Uint8 {
			return v == base64.StdEncoding.EncodeToString(live.Bytes())
		}
		return live.Kind() == reflect.String && live.String() == v
	case bool:
		return live.Kind() == reflect.Bool && live.Bool() == v
	case int64:
		return live.CanInt() && live.Int() == v
	case []any:
		return live.Kind() == reflect.Slice && live.Len() == len(v) && sameItems(v, live)
	case map[string]any:
		return sameEntries(v, live, entry)
	}
	return false
}

func sameItems(l []any, live reflect.Value) bool {
	for i, v := range l {
		if !same(v, live.Index(i)) {
			return false
		}
	}
	return true
}

func sameEntries(m map[string]any, live reflect.Value, e *value.TypeReflectCacheEntry) bool {
	switch live.Kind() {
	case reflect.Map:
		if live.Len() != len(m) {
			return false
		}
		for name, v := range m {
			if x := entry(live, name); !x.IsValid() || !same(v, x) {
				return false
			}
		}
		return true
	case reflect.Struct:
		met := 0
		for _, f := range e.OrderedFields() {
			x := f.GetFrom(live)
			if f.CanOmit(x) {
				continue
			}
			if v, ok := m[f.JsonName]; !ok || !same(v, x) {
				return false
			}
			met++
		}
		return met == len(m)
	}
	return false
}

// sameSpecial compares types that write themselves.
func sameSpecial(v any, live reflect.Value) bool {
	switch x := live.Interface().(type) {
	case apiresource.Quantity:
		return v == x.String()
	case intstr.IntOrString:
		if x.Type == intstr.Int {
			return v == int64(x.IntVal)
		}
		return v == x.StrVal
	case metav1.Time:
		return v == x.UTC().Format(time.RFC3339)
	case metav1.MicroTime:
		return v == x.UTC().Format(metav1.RFC3339Micro)
	}
	return false
}
