package apply

import (
	"reflect"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/resource/codec"
)

// structTree is the tree of objects that are Go structs. A place is the plan for its type.
type structTree struct{}

func (structTree) null(v val) bool              { return isNull(v.rv) }
func (structTree) equal(p place, l, r val) bool { return p.plan.eq(l.rv, r.rv) }

// goVal follows a pointer that leads somewhere; the zero reflect.Value is nothing.
func goVal(v reflect.Value) val {
	v = deref(v)
	return val{there: v.IsValid(), rv: v}
}

// deref follows a pointer that leads somewhere.
func deref(v reflect.Value) reflect.Value {
	if v.IsValid() && v.Kind() == reflect.Pointer && !v.IsNil() {
		return v.Elem()
	}
	return v
}

// isNull says whether a value is null in JSON.
func isNull(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		return v.IsNil()
	case reflect.Struct:
		if z, ok := zeroers[v.Type()]; ok {
			return z(v)
		}
	}
	return false
}

func (structTree) empty(p place, v val) bool {
	if !v.there || isNull(v.rv) {
		return true
	}
	if p.plan.op != opStruct {
		return v.rv.Len() == 0
	}
	for i := range p.plan.fields {
		if f := &p.plan.fields[i]; f.omit == nil || !f.omit(fieldAt(v.rv, f.index)) {
			return false
		}
	}
	return true
}

func (structTree) op(p place, l, r val) op {
	n := p.plan
	if n.op == opLeaf || n.op == opStruct || !l.there || !r.there {
		return n.op
	}
	switch lnull, rnull := isNull(l.rv), isNull(r.rv); {
	case lnull && rnull:
		return opSame
	case !lnull && !rnull && n.eq(l.rv, r.rv):
		return opSame
	}
	return n.op
}

func (structTree) fields(w *walk, p place, l, r val) {
	if p.plan.op == opMap {
		entries(w, p.plan.elem, l.rv, r.rv)
		return
	}
	lOK, rOK := l.there && !isNull(l.rv), r.there && !isNull(r.rv)
	for i := range p.plan.fields {
		f := &p.plan.fields[i]
		var x, y val
		if lOK {
			x = goVal(f.of(l.rv))
		}
		if rOK {
			y = goVal(f.of(r.rv))
		}
		if x.there || y.there {
			w.compare(step{text: f.text}, place{plan: f.node}, x, y)
		}
	}
}

// of returns the field of a struct, or nothing if it is left out of JSON.
func (f *fieldNode) of(v reflect.Value) reflect.Value {
	if v = fieldAt(v, f.index); f.omit != nil && f.omit(v) {
		return reflect.Value{}
	}
	return v
}

// entries has the walk compare what two maps hold.
func entries(w *walk, elem *node, l, r reflect.Value) {
	names := make([]string, 0, 8)
	for _, m := range [...]reflect.Value{r, l} {
		if m.IsValid() {
			for it := m.MapRange(); it.Next(); {
				names = append(names, it.Key().String())
			}
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !isPlain(name) {
			w.lost = true
			return
		}
		w.compare(step{text: "f:" + name}, place{plan: elem}, goVal(entry(l, name)), goVal(entry(r, name)))
	}
}

// entry looks a key up.
func entry(m reflect.Value, name string) reflect.Value {
	if !m.IsValid() || isNull(m) {
		return reflect.Value{}
	}
	return m.MapIndex(mapKey(m, name))
}

func mapKey(m reflect.Value, name string) reflect.Value {
	k := reflect.ValueOf(name)
	if t := m.Type().Key(); k.Type() != t {
		k = k.Convert(t)
	}
	return k
}

func (structTree) items(p place, v val) (list []element, ok bool) {
	if !v.there || isNull(v.rv) {
		return nil, true
	}
	list = make([]element, v.rv.Len())
	room := make([]key, 0, len(list)*max(1, len(p.plan.keys)))
	for i := range list {
		start := len(room)
		list[i].v, list[i].index = goVal(v.rv.Index(i)), i
		if room, ok = p.plan.identify(room, list[i].v.rv); !ok || len(room) == start {
			return nil, false
		}
		list[i].keys = room[start:len(room):len(room)]
	}
	return list, true
}

// identify appends what identifies an item.
func (n *node) identify(room []key, v reflect.Value) ([]key, bool) {
	if n.op == opSet {
		s, ok := scalarOf(v)
		return append(room, key{val: s}), ok
	}
	if isNull(v) {
		return room, false
	}
	for i := range n.keys {
		k := &n.keys[i]
		f := fieldAt(v, k.index)
		switch {
		case k.omit == nil || !k.omit(f):
			s, ok := scalarOf(deref(f))
			if !ok {
				return room, false
			}
			room = append(room, key{k.name, s})
		case k.isDef:
			room = append(room, key{k.name, k.def})
		}
	}
	return room, true
}

func scalarOf(v reflect.Value) (scalar, bool) {
	switch v.Kind() {
	case reflect.String:
		return scalar{kind: str, s: v.String()}, isPlain(v.String())
	case reflect.Int, reflect.Int32, reflect.Int64:
		return scalar{kind: number, n: v.Int()}, true
	case reflect.Bool:
		return boolScalar(v.Bool()), true
	}
	return scalar{}, false
}

func (structTree) below(p place, s *step) (place, bool) {
	n := p.plan
	child := place{plan: n.elem}
	switch s.text[0] {
	case 'f':
		if n.op == opStruct {
			f := n.field(s.text[2:])
			if f == nil {
				return place{}, false
			}
			return place{plan: f.node}, true
		}
		return child, n.op == opMap
	case 'k':
		return child, n.op == opKeyed
	}
	return child, n.op == opSet
}

// field finds a field by its name in JSON; nil if there is none.
func (n *node) field(name string) *fieldNode {
	at, ok := slices.BinarySearchFunc(n.fields, name, func(f fieldNode, name string) int { return strings.Compare(f.name, name) })
	if !ok {
		return nil
	}
	return &n.fields[at]
}

func (structTree) docOp(p place, _ any, _ val) op { return p.plan.op }
func (structTree) docSame(doc any, live val) bool { return same(doc, live.rv) }

func (structTree) docField(p place, live val, name string, doc any) (f named, ok bool) {
	if p.plan.op == opMap {
		return named{place: place{plan: p.plan.elem}, v: goVal(entry(live.rv, name)), entry: true}, true
	}
	known := p.plan.field(name)
	if known == nil {
		return f, false
	}
	f.place.plan, f.text = known.node, known.text
	if f.v = goVal(known.of(live.rv)); f.v.there {
		return f, true
	}
	f.unset = known.node.op == opLeaf && isZero(doc, fieldAt(live.rv, known.index))
	return f, f.unset
}

// isZero reports whether a patch sets a plain field to its zero value.
func isZero(v any, field reflect.Value) bool {
	switch v := v.(type) {
	case bool:
		return !v && field.Kind() == reflect.Bool
	case string:
		return v == "" && field.Kind() == reflect.String
	case int64:
		return v == 0 && field.CanInt()
	}
	return false
}

func (structTree) docKeys(room []key, p place, doc any) (keys []key, ok bool) {
	n, keys := p.plan, room
	if n.op == opSet {
		s, ok := docScalar(doc)
		return append(keys, key{val: s}), ok
	}
	m, _ := doc.(map[string]any)
	for i := range n.keys {
		k := &n.keys[i]
		if x, given := m[k.name]; given {
			s, ok := docScalar(x)
			if !ok {
				return nil, false
			}
			keys = append(keys, key{k.name, s})
		} else if k.isDef {
			keys = append(keys, key{k.name, k.def})
		} else if k.omit == nil {
			return nil, false
		}
	}
	return keys, len(keys) > 0
}

func (structTree) putField(p place, live val, name string, f named, doc any) bool {
	if p.plan.op != opMap {
		return assign(f.v.rv, doc)
	}
	made, ok := decodedAs(live.rv.Type().Elem(), doc)
	if ok {
		live.rv.SetMapIndex(mapKey(live.rv, name), made)
	}
	return ok
}

func (structTree) putItem(_ val, e element, doc any) bool { return assign(e.v.rv, doc) }

// assign writes a decoded value to its place.
func assign(to reflect.Value, doc any) bool {
	if !to.CanSet() {
		return false
	}
	made, ok := decodedAs(to.Type(), doc)
	if ok {
		to.Set(made)
	}
	return ok
}

// decodedAs makes a value of a type; ok is false if the document does not decode into it without a word.
func decodedAs(t reflect.Type, doc any) (v reflect.Value, ok bool) {
	made := reflect.New(t)
	raw, err := codec.MarshalJSON(doc)
	if err != nil {
		return v, false
	}
	strict, err := codec.UnmarshalJSON(raw, made.Interface())
	return made.Elem(), err == nil && len(strict) == 0
}
