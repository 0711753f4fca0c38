package apply

import (
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// An untypedElement is an item of a list with what identifies it.
type untypedElement struct {
	keys  []key
	v     any
	index int
}

func (u *untyped) lists(t *schema.List, l, r []any) (out set) {
	ls, rs := u.elements(t, l), u.elements(t, r)
	i, j := 0, 0
	for !u.lost && (i < len(ls) || j < len(rs)) {
		c := 0
		switch {
		case i == len(ls):
			c = 1
		case j == len(rs):
			c = -1
		default:
			c = compareKeys(ls[i].keys, rs[j].keys)
		}
		var x, y any = absent{}, absent{}
		var keys []key
		if c <= 0 {
			x, keys = ls[i].v, ls[i].keys
			i++
		}
		if c >= 0 {
			y, keys = rs[j].v, rs[j].keys
			j++
		}
		if marked, sub := u.diff(t.ElementType, x, y); marked != 0 || len(sub) > 0 {
			out = append(out, item{step{text: keyText(len(t.Keys) == 0, keys), keys: keys}, marked, sub})
		}
	}
	return out
}

func (u *untyped) elements(t *schema.List, l []any) []untypedElement {
	list := make([]untypedElement, len(l))
	for i, v := range l {
		list[i] = untypedElement{u.keys(t, v), v, i}
	}
	slices.SortFunc(list, func(a, b untypedElement) int { return compareKeys(a.keys, b.keys) })
	for i := 1; i < len(list); i++ {
		if compareKeys(list[i-1].keys, list[i].keys) == 0 {
			u.lost = true
		}
	}
	return list
}

func (u *untyped) keys(t *schema.List, v any) (keys []key) {
	if len(t.Keys) == 0 {
		return []key{{val: u.scalar(v)}}
	}
	m, ok := v.(map[string]any)
	atom, known := u.schema.Resolve(t.ElementType)
	if !ok || !known || atom.Map == nil {
		u.lost = true
		return nil
	}
	for _, name := range t.Keys {
		if x, ok := m[name]; ok {
			keys = append(keys, key{name, u.scalar(x)})
		} else if f, _ := atom.Map.FindField(name); f.Default != nil {
			keys = append(keys, key{name, u.scalar(f.Default)})
		}
	}
	u.lost = u.lost || len(keys) == 0
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.name, b.name) })
	return keys
}

func (u *untyped) scalar(v any) scalar {
	switch v := v.(type) {
	case bool:
		if v {
			return scalar{kind: boolean, n: 1}
		}
		return scalar{kind: boolean}
	}
	var d docWalk
	s := d.scalar(v)
	u.lost = u.lost || d.lost
	return s
}
