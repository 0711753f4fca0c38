package apply

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/kloop-dev/kloop/resource"
)

// An untyped walk is a walk of custom resources, which are maps and lists, along their merge schema.
type untyped struct {
	schema *schema.Schema
	lost   bool // as in walk
	write  bool // as in docWalk
}

// absent is the value of what is not there, which is not the same as null.
type absent struct{}

// custom finds how two custom resources differ. ok is false when only the library knows. old may be nil.
func (t *Tracker) custom(w *Write, old, obj resource.Object) (u *untyped, typ typed.ParseableType, diff set, ok bool) {
	is, ok := obj.(runtime.Unstructured)
	if !ok {
		return nil, typ, nil, false
	}
	if old == nil {
		old = w.Kind.New(w.GVK)
	}
	was, ok := old.(runtime.Unstructured)
	if !ok {
		return nil, typ, nil, false
	}
	typ = t.types.of(w.GVK)
	u = &untyped{schema: typ.Schema}
	diff = u.root(typ.TypeRef, was.UnstructuredContent(), is.UnstructuredContent())
	return u, typ, diff, !u.lost
}

// root compares whole objects, apart from what nobody owns.
func (u *untyped) root(tr schema.TypeRef, l, r map[string]any) set {
	lm, _ := l["metadata"].(map[string]any)
	rm, _ := r["metadata"].(map[string]any)
	l, r = maps.Clone(l), maps.Clone(r)
	for _, m := range []map[string]any{l, r} {
		for _, k := range ours {
			delete(m, k)
		}
		delete(m, "metadata")
	}
	atom, _ := u.schema.Resolve(tr)
	if atom.Map == nil {
		u.lost = true
		return nil
	}
	out := u.maps(atom.Map, l, r)
	if meta := u.maps(u.metaMap(atom.Map), bare(lm), bare(rm)); len(meta) > 0 {
		it := item{step{text: "f:metadata"}, 0, meta}
		at, _ := slices.BinarySearchFunc(out, it, func(a, b item) int { return a.step.compare(&b.step) })
		out = slices.Insert(out, at, it)
	}
	return out
}

// bare is metadata without what nobody owns.
func bare(m map[string]any) map[string]any {
	m = maps.Clone(m)
	for _, k := range oursMeta {
		delete(m, k)
	}
	return m
}

func (u *untyped) metaMap(m *schema.Map) *schema.Map {
	tr := m.ElementType
	if f, ok := m.FindField("metadata"); ok {
		tr = f.Type
	}
	if atom, ok := u.schema.Resolve(tr); ok && atom.Map != nil && atom.Map.ElementRelationship != schema.Atomic {
		return atom.Map
	}
	u.lost = true
	return &schema.Map{}
}

func isAbsent(v any) bool { return v == absent{} }

// narrow leaves of an atom what fits the value.
func narrow(a schema.Atom, v any) schema.Atom {
	switch v.(type) {
	case nil, absent:
	case []any:
		if a.List != nil {
			return schema.Atom{List: a.List}
		}
	case map[string]any:
		if a.Map != nil {
			return schema.Atom{Map: a.Map}
		}
	default:
		if a.Scalar != nil {
			return schema.Atom{Scalar: a.Scalar}
		}
	}
	return a
}

func (u *untyped) diff(tr schema.TypeRef, l, r any) (bits, set) {
	atom, ok := u.schema.Resolve(tr)
	if !ok || u.lost {
		u.lost = true
		return 0, nil
	}
	a := narrow(atom, r)
	if isAbsent(r) {
		a = narrow(atom, l)
	} else if !isAbsent(l) && !sameAtom(a, narrow(atom, l)) {
		u.lost = true // another type than before
		return 0, nil
	}
	switch {
	case a.Map != nil:
		lm, lok := asMap(l)
		rm, rok := asMap(r)
		u.lost = u.lost || !lok || !rok
		if a.Map.ElementRelationship == schema.Atomic || len(lm) == 0 && len(rm) == 0 {
			return untypedLeaf(l, r), nil
		}
		return presence(l, r), u.maps(a.Map, lm, rm)
	case a.Scalar != nil:
		return untypedLeaf(l, r), nil
	case a.List != nil:
		ll, lok := asList(l)
		rl, rok := asList(r)
		u.lost = u.lost || !lok || !rok
		if a.List.ElementRelationship != schema.Associative || len(ll) == 0 && len(rl) == 0 {
			return untypedLeaf(l, r), nil
		}
		return presence(l, r), u.lists(a.List, ll, rl)
	}
	u.lost = true
	return 0, nil
}

func sameAtom(a, b schema.Atom) bool {
	return a.Map == b.Map && a.List == b.List && a.Scalar == b.Scalar
}

func asMap(v any) (map[string]any, bool) {
	if v == nil || isAbsent(v) {
		return nil, true
	}
	m, ok := v.(map[string]any)
	return m, ok
}

func asList(v any) ([]any, bool) {
	if v == nil || isAbsent(v) {
		return nil, true
	}
	m, ok := v.([]any)
	return m, ok
}

func presence(l, r any) bits {
	switch {
	case isAbsent(l):
		return member
	case isAbsent(r):
		return removed
	}
	return 0
}

func untypedLeaf(l, r any) bits {
	if b := presence(l, r); b != 0 {
		return b
	}
	if !equalUntyped(l, r) {
		return changed
	}
	return 0
}

// equalUntyped compares as JSON does: 1 and 1.0 are the same.
func equalUntyped(l, r any) bool {
	switch l := l.(type) {
	case map[string]any:
		r, ok := r.(map[string]any)
		return ok && maps.EqualFunc(l, r, equalUntyped)
	case []any:
		r, ok := r.([]any)
		return ok && slices.EqualFunc(l, r, equalUntyped)
	case int64:
		if f, ok := r.(float64); ok {
			return float64(l) == f
		}
	case float64:
		if n, ok := r.(int64); ok {
			return l == float64(n)
		}
	}
	return reflect.DeepEqual(l, r)
}

func (u *untyped) maps(m *schema.Map, l, r map[string]any) (out set) {
	names := make([]string, 0, len(l)+len(r))
	for k := range r {
		names = append(names, k)
	}
	for k := range l {
		if _, both := r[k]; !both {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		tr := m.ElementType
		if f, ok := m.FindField(name); ok {
			tr = f.Type
		}
		if !isPlain(name) {
			u.lost = true
			return nil
		}
		marked, sub := u.diff(tr, get(l, name), get(r, name))
		if marked != 0 || len(sub) > 0 {
			out = append(out, item{step{text: "f:" + name}, marked, sub})
		}
	}
	return out
}

func get(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return v
	}
	return absent{}
}

// fits says whether a set speaks of places that the schema has, and looks into none that are owned as a whole now.
func (u *untyped) fits(s set, tr schema.TypeRef) bool {
	atom, ok := u.schema.Resolve(tr)
	if !ok {
		return false
	}
	for i := range s {
		child := schema.TypeRef{}
		switch s[i].step.text[0] {
		case 'f':
			if atom.Map == nil || atom.Map.ElementRelationship == schema.Atomic {
				return false
			}
			child = atom.Map.ElementType
			if f, ok := atom.Map.FindField(s[i].step.text[2:]); ok {
				child = f.Type
			}
		default:
			if atom.List == nil || atom.List.ElementRelationship != schema.Associative || (s[i].step.text[0] == 'k') != (len(atom.List.Keys) > 0) {
				return false
			}
			child = atom.List.ElementType
		}
		if len(s[i].sub) > 0 && !u.fits(s[i].sub, child) {
			return false
		}
	}
	return true
}
