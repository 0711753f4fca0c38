package apply

import (
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

func (u *untyped) lists(t *schema.List, l, r []any) (out set) {
	ls, rs := u.elements(t, l), u.elements(t, r)
	for !u.lost && len(ls)+len(rs) > 0 {
		var x, y any = absent{}, absent{}
		keys := next(&ls, &rs, &x, &y)
		if marked, sub := u.diff(t.ElementType, x, y); marked != 0 || len(sub) > 0 {
			out = append(out, item{step{text: keyText(len(t.Keys) == 0, keys), keys: keys}, marked, sub})
		}
	}
	return out
}

func (u *untyped) elements(t *schema.List, l []any) []element[any] {
	list := make([]element[any], len(l))
	for i, v := range l {
		list[i] = element[any]{u.keys(t, v), v, i}
	}
	if !inOrder(list) {
		u.lost = true
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
