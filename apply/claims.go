package apply

import "slices"

// written is the part of a tree that knows of the values of a patch, which are decoded JSON.
type written interface {
	// docOp is op for the value of a patch and the live one; opUnknown also if the patch's is not of the type.
	docOp(p place, doc any, live val) op
	// docSame says whether both are the same, down to the bottom.
	docSame(doc any, live val) bool
	// docField finds what a patch names in a live struct or map; ok is false for what the schema does not have.
	docField(p place, live val, name string, doc any) (f named, ok bool)
	// docKeys appends what identifies an item of a patch's list.
	docKeys(room []key, p place, doc any) ([]key, bool)
	// putField writes what docField found, putItem an item of a live list; false if the value is not of the type.
	putField(p place, live val, name string, f named, doc any) bool
	putItem(live val, e element, doc any) bool
}

// A named is a field of a live object that a patch names.
type named struct {
	place place
	text  string // as a step; "": it is to be made of the name
	v     val    // nothing: the live object does not have it
	entry bool   // of a map: it has an owner even if there is something below it
	unset bool   // the patch sets false, 0 or "", which the live object has and does not keep
}

// claims returns what the value doc of a patch owns: its own place, and what is below it. It is lost when the live val is
// another, unless it may be written.
func (w *walk) claims(p place, doc any, live val) (bits, set) {
	t := w.tree
	if w.lost || doc == nil || !live.there || t.null(live) {
		w.lost = true
		return 0, nil
	}
	switch how := t.docOp(p, doc, live); how {
	case opLeaf:
		if t.docSame(doc, live) {
			return member, nil
		}
		w.lost = !w.write
		return member | changed, nil // the caller writes it
	case opStruct, opMap:
		if m, ok := doc.(map[string]any); ok {
			if len(m) == 0 {
				return member, nil
			}
			return 0, w.claimFields(p, m, live)
		}
	case opSet, opKeyed:
		if l, ok := doc.([]any); ok {
			return 0, w.claimItems(p, how, l, live)
		}
	}
	w.lost = true
	return 0, nil
}

func (w *walk) claimFields(p place, m map[string]any, live val) set {
	mark, first := w.pile.mark(), len(w.pile.names)
	for name := range m {
		w.pile.names = append(w.pile.names, name)
	}
	names := w.pile.names[first:]
	slices.Sort(names)
	for _, name := range names {
		f, ok := w.tree.docField(p, live, name, m[name])
		if !ok || !isPlain(name) {
			w.lost = true
			return nil
		}
		it := item{step: step{text: f.text}}
		if f.text == "" {
			it.step.text = "f:" + name
		}
		if f.unset {
			it.marked = member
		} else if it.marked, it.sub = w.claims(f.place, m[name], f.v); it.marked&changed != 0 && !w.lost {
			w.lost = !w.tree.putField(p, live, name, f, m[name])
		}
		if f.entry {
			it.marked |= member
		}
		if it.marked != 0 || len(it.sub) > 0 {
			w.pile.add(it)
		}
	}
	w.pile.names = w.pile.names[:first]
	return w.pile.take(mark)
}

// claimItems matches the items of a list with those of the live one, which must stand in the same order.
func (w *walk) claimItems(p place, how op, l []any, live val) set {
	have, ok := w.tree.items(p, live)
	if w.lost = w.lost || !ok || !inOrder(have); w.lost {
		return nil
	}
	elem, _ := w.tree.below(p, itemStep(how))
	mark, before := w.pile.mark(), -1
	for _, doc := range l {
		keys, known := w.tree.docKeys(w.pile.keys[:0], p, doc)
		w.pile.keys = keys
		at, ok := slices.BinarySearchFunc(have, keys, func(e element, keys []key) int { return compareKeys(e.keys, keys) })
		if w.lost || !known || !ok || have[at].index <= before {
			w.lost = true
			return nil
		}
		before, keys = have[at].index, have[at].keys
		marked, sub := w.claims(elem, doc, have[at].v)
		if marked&changed != 0 && !w.lost {
			w.lost = !w.tree.putItem(live, have[at], doc)
		}
		w.pile.add(item{step{text: keyText(how == opSet, keys), keys: keys}, marked | member, sub})
	}
	return w.pile.sorted(mark)
}

// docScalar is a value of a patch, or of a custom resource, as a key.
func docScalar(v any) (scalar, bool) {
	switch v := v.(type) {
	case string:
		return scalar{kind: str, s: v}, isPlain(v)
	case int64:
		return scalar{kind: number, n: v}, true
	case bool:
		return boolScalar(v), true
	}
	return scalar{}, false
}

func boolScalar(v bool) scalar {
	if v {
		return scalar{kind: boolean, n: 1}
	}
	return scalar{kind: boolean}
}
