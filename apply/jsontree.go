package apply

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// jsonTree is the tree of custom resources: decoded JSON, along their merge schema.
type jsonTree struct{ schema *schema.Schema }

func (jsonTree) null(v val) bool              { return v.doc == nil }
func (jsonTree) equal(_ place, l, r val) bool { return equalJSON(l.doc, r.doc) }

func (jsonTree) empty(_ place, v val) bool {
	switch v := v.doc.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// resolve returns what the schema says of a reference.
func (t jsonTree) resolve(tr schema.TypeRef) place {
	atom, _ := t.schema.Resolve(tr)
	return place{atom: atom}
}

// field returns what the schema says of a field, and whether it names it.
func (t jsonTree) field(m *schema.Map, name string) (place, bool) {
	if f, ok := m.FindField(name); ok {
		return t.resolve(f.Type), true
	}
	return t.resolve(m.ElementType), false
}

// narrow leaves of an atom what fits the value.
func narrow(a schema.Atom, v any) schema.Atom {
	switch v.(type) {
	case nil:
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

func (jsonTree) op(p place, l, r val) op {
	a := narrow(p.atom, r.doc)
	if !r.there {
		a = narrow(p.atom, l.doc)
	} else if l.there && a != narrow(p.atom, l.doc) {
		return opUnknown // another type than before
	}
	switch {
	case a.Map != nil:
		switch {
		case !fitsType[map[string]any](l.doc) || !fitsType[map[string]any](r.doc):
			return opUnknown
		case a.Map.ElementRelationship == schema.Atomic:
			return opLeaf
		}
		return opMap
	case a.Scalar != nil:
		return opLeaf
	case a.List != nil:
		switch {
		case !fitsType[[]any](l.doc) || !fitsType[[]any](r.doc):
			return opUnknown
		case a.List.ElementRelationship != schema.Associative:
			return opLeaf
		case len(a.List.Keys) == 0:
			return opSet
		}
		return opKeyed
	}
	return opUnknown
}

// fitsType says whether a value is of a Go type, null, or nothing.
func fitsType[T any](v any) bool {
	_, ok := v.(T)
	return ok || v == nil
}

// equalJSON compares as JSON does: 1 and 1.0 are the same.
func equalJSON(l, r any) bool {
	switch l := l.(type) {
	case map[string]any:
		r, ok := r.(map[string]any)
		return ok && maps.EqualFunc(l, r, equalJSON)
	case []any:
		r, ok := r.([]any)
		return ok && slices.EqualFunc(l, r, equalJSON)
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

func (t jsonTree) fields(w *walk, p place, l, r val) {
	lm, _ := l.doc.(map[string]any)
	rm, _ := r.doc.(map[string]any)
	names := make([]string, 0, len(lm)+len(rm))
	for k := range rm {
		names = append(names, k)
	}
	for k := range lm {
		if _, both := rm[k]; !both {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if !isPlain(name) {
			w.lost = true
			return
		}
		child, _ := t.field(p.atom.Map, name)
		w.compare(step{text: "f:" + name}, child, get(lm, name), get(rm, name))
	}
}

func get(m map[string]any, name string) val {
	v, ok := m[name]
	return val{there: ok, doc: v}
}

func (t jsonTree) items(p place, v val) (list []element, ok bool) {
	l, _ := v.doc.([]any)
	list = make([]element, len(l))
	for i, v := range l {
		keys, ok := t.docKeys(nil, p, v)
		if !ok {
			return nil, false
		}
		list[i] = element{keys, val{there: true, doc: v}, i}
	}
	return list, true
}

func (t jsonTree) below(p place, s *step) (place, bool) {
	a := p.atom
	if s.text[0] == 'f' {
		if a.Map == nil || a.Map.ElementRelationship == schema.Atomic {
			return place{}, false
		}
		child, _ := t.field(a.Map, s.text[2:])
		return child, true
	}
	if a.List == nil || a.List.ElementRelationship != schema.Associative || (s.text[0] == 'k') != (len(a.List.Keys) > 0) {
		return place{}, false
	}
	return t.resolve(a.List.ElementType), true
}

func (t jsonTree) docOp(p place, doc any, live val) op {
	how := t.op(p, live, val{there: true, doc: doc})
	if how == opLeaf && !t.valid(p, doc) {
		return opUnknown
	}
	return how
}

func (jsonTree) docSame(doc any, live val) bool { return equalJSON(doc, live.doc) }

func (t jsonTree) docField(p place, live val, name string, _ any) (f named, ok bool) {
	m, _ := live.doc.(map[string]any)
	child, known := t.field(p.atom.Map, name)
	return named{place: child, v: get(m, name), entry: !known}, true
}

func (t jsonTree) docKeys(room []key, p place, v any) (keys []key, ok bool) {
	keys = room
	if len(p.atom.List.Keys) == 0 {
		s, ok := docScalar(v)
		return append(keys, key{val: s}), ok
	}
	m, ok := v.(map[string]any)
	elem := t.resolve(p.atom.List.ElementType)
	if !ok || elem.atom.Map == nil {
		return nil, false
	}
	for _, name := range p.atom.List.Keys {
		x, given := m[name]
		if !given {
			f, _ := elem.atom.Map.FindField(name)
			if x = f.Default; x == nil {
				continue
			}
		}
		s, ok := docScalar(x)
		if !ok {
			return nil, false
		}
		keys = append(keys, key{name, s})
	}
	coldsort.Few(keys, func(a, b key) int { return strings.Compare(a.name, b.name) })
	return keys, len(keys) > 0
}

func (jsonTree) putField(_ place, live val, name string, _ named, doc any) bool {
	live.doc.(map[string]any)[name] = doc
	return true
}

func (jsonTree) putItem(live val, e element, doc any) bool {
	live.doc.([]any)[e.index] = doc
	return true
}

// valid says whether a value is of the type, as far as the schema tells. In doubt it is not.
func (t jsonTree) valid(p place, v any) bool {
	switch v := v.(type) {
	case nil:
		return false // null has rules of its own
	case map[string]any:
		if p.atom.Map == nil {
			return false
		}
		for name, e := range v {
			if child, _ := t.field(p.atom.Map, name); !t.valid(child, e) {
				return false
			}
		}
		return true
	case []any:
		if p.atom.List == nil {
			return false
		}
		if p.atom.List.ElementRelationship == schema.Associative {
			if list, ok := t.items(p, val{there: true, doc: v}); !ok || !inOrder(list) {
				return false // an item twice, or without a key
			}
		}
		elem := t.resolve(p.atom.List.ElementType)
		return !slices.ContainsFunc(v, func(e any) bool { return !t.valid(elem, e) })
	}
	return p.atom.Scalar != nil && validScalar(*p.atom.Scalar, v)
}

func validScalar(t schema.Scalar, v any) (ok bool) {
	switch t {
	case schema.Numeric:
		if _, ok = v.(int64); !ok {
			_, ok = v.(float64)
		}
	case schema.String:
		_, ok = v.(string)
	case schema.Boolean:
		_, ok = v.(bool)
	case schema.Untyped:
		ok = true
	}
	return ok
}

// diffObjects compares whole custom resources, apart from what nobody owns.
func (t jsonTree) diffObjects(typ typed.ParseableType, l, r map[string]any, in *pile) (out set, ok bool) {
	root := t.resolve(typ.TypeRef)
	if root.atom.Map == nil {
		return nil, false
	}
	if meta, _ := t.field(root.atom.Map, "metadata"); meta.atom.Map == nil || meta.atom.Map.ElementRelationship == schema.Atomic {
		return nil, false
	}
	w := &walk{tree: t, pile: in}
	t.fields(w, root, val{there: true, doc: owned(l)}, val{there: true, doc: owned(r)})
	return unownedMeta(w.pile.take(0)), !w.lost
}

// owned is an object without what nobody owns.
func owned(obj map[string]any) map[string]any {
	obj = maps.Clone(obj)
	for _, k := range ours {
		delete(obj, k)
	}
	meta, _ := obj["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	for _, k := range oursMeta {
		delete(meta, k)
	}
	obj["metadata"] = meta
	return obj
}

// unownedMeta takes the mark off the metadata: nobody owns it as a whole.
func unownedMeta(s set) set {
	for i := range s {
		if s[i].step.text == "f:metadata" {
			if s[i].marked = 0; len(s[i].sub) == 0 {
				return slices.Delete(s, i, i+1)
			}
		}
	}
	return s
}
