package apply

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A walk finds the paths in which two objects differ.
type walk struct {
	lost bool   // something came up that only the library knows; the result is worthless
	pile []item // sets in the making, one upon the other
}

var walks = sync.Pool{New: func() any { return &walk{} }}

// done puts the walk back for another.
func (w *walk) done() {
	clear(w.pile[:cap(w.pile)])
	w.lost, w.pile = false, w.pile[:0]
	walks.Put(w)
}

// made takes the set off the pile that was begun at the mark.
func (w *walk) made(mark int) set {
	var out set
	if len(w.pile) > mark {
		out = append(make(set, 0, len(w.pile)-mark), w.pile[mark:]...)
	}
	w.pile = w.pile[:mark]
	return out
}

// diff compares two values of the node's type, pointers to it, or nothing (the zero Value). It returns how the
// place itself differs and what differs below.
func (w *walk) diff(n *node, l, r reflect.Value) (marked bits, sub set) {
	l, r = deref(l), deref(r)
	if n.op == opLeaf {
		return leaf(n, l, r), nil
	}
	if n.op == opUnknown {
		if l.IsValid() && r.IsValid() && (isNull(l) && isNull(r) || !isNull(l) && !isNull(r) && n.eq(l, r)) {
			return 0, nil
		}
		w.lost = true
		return 0, nil
	}
	if isEmpty(n, l) && isEmpty(n, r) { // nothing to look into, but null and empty are not the same
		return leaf(n, l, r), nil
	}
	if n.op != opStruct && l.IsValid() && r.IsValid() && n.eq(l, r) {
		return 0, nil // the common case, without keys and orders
	}
	switch n.op {
	case opStruct:
		sub = w.structs(n, l, r)
	case opMap:
		sub = w.maps(n, l, r)
	default:
		sub = w.lists(n, l, r)
	}
	switch {
	case !l.IsValid():
		marked = member
	case !r.IsValid():
		marked = removed
	}
	return marked, sub
}

func leaf(n *node, l, r reflect.Value) bits {
	switch {
	case !l.IsValid():
		return member
	case !r.IsValid():
		return removed
	case isNull(l) || isNull(r):
		if isNull(l) != isNull(r) {
			return changed
		}
		return 0
	case !n.eq(l, r):
		return changed
	}
	return 0
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

// isEmpty says whether there is nothing inside a value.
func isEmpty(n *node, v reflect.Value) bool {
	if !v.IsValid() || isNull(v) {
		return true
	}
	if n.op != opStruct {
		return v.Len() == 0
	}
	for i := range n.fields {
		if f := &n.fields[i]; f.omit == nil || !f.omit(fieldAt(v, f.index)) {
			return false
		}
	}
	return true
}

func (w *walk) structs(n *node, l, r reflect.Value) set {
	mark := len(w.pile)
	lOK, rOK := l.IsValid() && !isNull(l), r.IsValid() && !isNull(r)
	for i := range n.fields {
		f := &n.fields[i]
		var x, y reflect.Value
		if lOK {
			if x = fieldAt(l, f.index); f.omit != nil && f.omit(x) {
				x = reflect.Value{}
			}
		}
		if rOK {
			if y = fieldAt(r, f.index); f.omit != nil && f.omit(y) {
				y = reflect.Value{}
			}
		}
		if !x.IsValid() && !y.IsValid() {
			continue
		}
		w.add(step{text: f.text}, f.node, x, y)
	}
	return w.made(mark)
}

// add puts on the pile what differs below a step.
func (w *walk) add(s step, n *node, l, r reflect.Value) {
	if marked, sub := w.diff(n, l, r); marked != 0 || len(sub) > 0 {
		w.pile = append(w.pile, item{s, marked, sub})
	}
}

func (w *walk) maps(n *node, l, r reflect.Value) set {
	mark := len(w.pile)
	names := make([]string, 0, 8)
	if r.IsValid() {
		for it := r.MapRange(); it.Next(); {
			names = append(names, it.Key().String())
		}
	}
	if l.IsValid() {
		for it := l.MapRange(); it.Next(); {
			names = append(names, it.Key().String())
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !isPlain(name) {
			w.lost = true
			return nil
		}
		x, y := entry(l, name), entry(r, name)
		if x.IsValid() && y.IsValid() {
			if marked, sub := w.diff(n.elem, x, y); marked == 0 && len(sub) == 0 {
				continue
			}
		}
		w.add(step{text: "f:" + name}, n.elem, x, y)
	}
	return w.made(mark)
}

// entry looks a key up.
func entry(m reflect.Value, name string) reflect.Value {
	if !m.IsValid() || isNull(m) {
		return reflect.Value{}
	}
	k := reflect.ValueOf(name)
	if t := m.Type().Key(); k.Type() != t {
		k = k.Convert(t)
	}
	return m.MapIndex(k)
}

func (w *walk) lists(n *node, l, r reflect.Value) set {
	mark := len(w.pile)
	ls, rs := w.elements(n, l), w.elements(n, r)
	for !w.lost && len(ls)+len(rs) > 0 {
		var x, y reflect.Value
		keys := next(&ls, &rs, &x, &y)
		if marked, sub := w.diff(n.elem, x, y); marked != 0 || len(sub) > 0 {
			w.pile = append(w.pile, item{step{text: keyText(n.op == opSet, keys), keys: keys}, marked, sub})
		}
	}
	return w.made(mark)
}

// elements returns the items in the order of their keys. Items of the same key are more than a walk can tell.
func (w *walk) elements(n *node, v reflect.Value) []element[reflect.Value] {
	if !v.IsValid() || isNull(v) {
		return nil
	}
	list := make([]element[reflect.Value], v.Len())
	room := make([]key, 0, v.Len()*max(1, len(n.keys)))
	for i := range list {
		start := len(room)
		list[i].v, list[i].index = v.Index(i), i
		room = w.keys(room, n, deref(list[i].v))
		if list[i].keys = room[start:len(room):len(room)]; len(list[i].keys) == 0 {
			w.lost = true
		}
	}
	if !inOrder(list) {
		w.lost = true
	}
	return list
}

// keys appends what identifies an item.
func (w *walk) keys(room []key, n *node, v reflect.Value) []key {
	if n.op == opSet {
		return append(room, key{val: w.scalar(v)})
	}
	if isNull(v) {
		w.lost = true
		return room
	}
	for i := range n.keys {
		k := &n.keys[i]
		f := fieldAt(v, k.index)
		switch {
		case k.omit == nil || !k.omit(f):
			room = append(room, key{k.name, w.scalar(deref(f))})
		case k.isDef:
			room = append(room, key{k.name, k.def})
		}
	}
	return room
}

func (w *walk) scalar(v reflect.Value) scalar {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); isPlain(s) {
			return scalar{kind: str, s: s}
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return scalar{kind: number, n: v.Int()}
	case reflect.Bool:
		if v.Bool() {
			return scalar{kind: boolean, n: 1}
		}
		return scalar{kind: boolean}
	}
	w.lost = true
	return scalar{}
}

// keyText writes a step to a list item, named by its value or its keys.
func keyText(value bool, keys []key) string {
	var b strings.Builder
	if value {
		b.WriteString("v:")
		keys[0].val.write(&b)
		return b.String()
	}
	for i, k := range keys {
		if i == 0 {
			b.WriteString("k:{")
		} else {
			b.WriteByte(',')
		}
		b.WriteString(`\"`)
		b.WriteString(k.name)
		b.WriteString(`\":`)
		k.val.write(&b)
	}
	b.WriteByte('}')
	return b.String()
}

func (s scalar) write(b *strings.Builder) {
	switch s.kind {
	case str:
		b.WriteString(`\"`)
		b.WriteString(s.s)
		b.WriteString(`\"`)
	case number:
		var room [20]byte
		b.Write(strconv.AppendInt(room[:0], s.n, 10))
	default:
		b.WriteString(strconv.FormatBool(s.n != 0))
	}
}
