package apply

import (
	"reflect"
	"sync"

	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A tree is a representation of objects that a walk goes through: Go structs (structTree), or decoded JSON (jsonTree).
type tree interface {
	// null says whether a value is null in JSON.
	null(v val) bool
	// empty says whether there is nothing inside a value.
	empty(p place, v val) bool
	// equal compares two values that are not null as their JSON would compare.
	equal(p place, l, r val) bool

	// op says how a place with these values is owned.
	op(p place, l, r val) op
	// fields has the walk compare all that two structs or maps hold, by name.
	fields(w *walk, p place, l, r val)
	// items returns what a list that is a set, or has keys, holds; ok is false for an item that nothing identifies.
	items(p place, v val) (list []element, ok bool)
	// below returns the place that a step leads to; ok is false if the schema has none, or owns it as a whole with what is around.
	below(p place, s *step) (place, bool)

	written
}

// A place in an object is known by the plan for its Go type, or by what the merge schema says of it, which may allow several
// types. A schema that does not know a place leaves the atom empty.
type place struct {
	plan *node
	atom schema.Atom
}

// A val is a value that lies at a place, as a Go value that no pointer leads to, or decoded. The zero val says that there is none,
// which is not the same as null.
type val struct {
	there bool
	rv    reflect.Value
	doc   any
}

// An op says how a value is owned.
type op uint8

const (
	opLeaf    op = iota // as a whole: a scalar or an atom
	opStruct            // field by field
	opMap               // key by key
	opSet               // a list of scalars, value by value
	opKeyed             // a list of structs, by their keys
	opUnknown           // the library knows
	opSame              // it doesn't matter: the values are the same
)

// A walk finds the paths in which two objects differ, or those that a patch sets. It is for one use.
type walk struct {
	tree  tree
	pile  *pile
	lost  bool // something came up that only the library knows; the result is worthless
	write bool // of a patch: a value that differs is written instead
}

// diff compares two values of a place, of which one may not be there. It returns how the place itself differs and what differs
// below.
func (w *walk) diff(p place, l, r val) (marked bits, sub set) {
	if w.lost {
		return 0, nil
	}
	t := w.tree
	how := t.op(p, l, r)
	switch {
	case how == opUnknown:
		w.lost = true
		return 0, nil
	case how == opSame: // the common case, without keys and orders
		return 0, nil
	case how == opLeaf, t.empty(p, l) && t.empty(p, r): // nothing to look into, but null and empty are not the same
		return w.leaf(p, l, r), nil
	}
	mark := w.pile.mark()
	if how == opStruct || how == opMap {
		t.fields(w, p, l, r)
	} else {
		w.lists(p, how, l, r)
	}
	switch {
	case !l.there:
		marked = member
	case !r.there:
		marked = removed
	}
	return marked, w.pile.take(mark)
}

func (w *walk) leaf(p place, l, r val) bits {
	t := w.tree
	switch {
	case !l.there:
		return member
	case !r.there:
		return removed
	case t.null(l) && t.null(r):
		return 0
	case t.null(l) || t.null(r) || !t.equal(p, l, r):
		return changed
	}
	return 0
}

// compare notes what differs below a step.
func (w *walk) compare(s step, p place, l, r val) {
	if marked, sub := w.diff(p, l, r); marked != 0 || len(sub) > 0 {
		w.pile.add(item{s, marked, sub})
	}
}

func (w *walk) lists(p place, how op, l, r val) {
	t := w.tree
	ls, lok := t.items(p, l)
	rs, rok := t.items(p, r)
	if !lok || !rok || !inOrder(ls) || !inOrder(rs) {
		w.lost = true
		return
	}
	elem, _ := t.below(p, itemStep(how))
	for !w.lost && len(ls)+len(rs) > 0 {
		var x, y val
		keys := next(&ls, &rs, &x, &y)
		if marked, sub := w.diff(elem, x, y); marked != 0 || len(sub) > 0 {
			w.pile.add(item{step{text: keyText(how == opSet, keys), keys: keys}, marked, sub})
		}
	}
}

var toItem, toValue = step{text: "k:"}, step{text: "v:"}

// itemStep is a step to any item of a list.
func itemStep(how op) *step {
	if how == opSet {
		return &toValue
	}
	return &toItem
}

// fits says whether a set speaks of places that the schema has, and looks into none that are owned as a whole now.
func fits(t tree, s set, p place) bool {
	for i := range s {
		child, ok := t.below(p, &s[i].step)
		if !ok || len(s[i].sub) > 0 && !fits(t, s[i].sub, child) {
			return false
		}
	}
	return true
}

// A pile holds sets in the making, one upon the other.
type pile struct {
	items []item
	names []string // of fields that are to be looked at in order, one object's upon another's
	keys  []key    // of the item that is looked for
	brief bool     // sets last until the pile is put back, and lie in its room
	room  []item   // where they lie
}

var piles = sync.Pool{New: func() any { return &pile{} }}

func newPile(brief bool) *pile {
	p := piles.Get().(*pile)
	p.brief = brief
	return p
}

// done puts the pile back for another.
func (p *pile) done() {
	clear(p.items[:cap(p.items)])
	clear(p.names[:cap(p.names)])
	clear(p.keys[:cap(p.keys)])
	clear(p.room)
	p.items, p.names, p.room = p.items[:0], p.names[:0], p.room[:0]
	piles.Put(p)
}

// space returns room for n items of a set.
func (p *pile) space(n int) set {
	if !p.brief {
		return make(set, 0, n)
	}
	at := len(p.room)
	if at+n > cap(p.room) { // sets that are there stay where they are
		p.room, at = make([]item, 0, max(128, n)), 0
	}
	p.room = p.room[:at+n]
	return set(p.room[at : at : at+n])
}

func (p *pile) mark() int   { return len(p.items) }
func (p *pile) add(it item) { p.items = append(p.items, it) }

// take takes the set off the pile that was begun at the mark.
func (p *pile) take(mark int) set {
	var out set
	if len(p.items) > mark {
		out = append(p.space(len(p.items)-mark), p.items[mark:]...)
	}
	p.items = p.items[:mark]
	return out
}

// sorted takes it in the order of its steps.
func (p *pile) sorted(mark int) set {
	out := p.take(mark)
	coldsort.Few(out, func(a, b item) int { return a.step.compare(&b.step) })
	return out
}
