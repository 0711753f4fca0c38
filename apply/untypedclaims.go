package apply

import (
	"maps"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// claims returns what the value v of a patch owns: its own place, and what is below it. It is lost when the live
// value is another.
func (u *untyped) claims(tr schema.TypeRef, v, live any) (bits, set) {
	atom, ok := u.schema.Resolve(tr)
	a := narrow(atom, v)
	if !ok || u.lost || v == nil || live == nil || isAbsent(live) || !sameAtom(a, narrow(atom, live)) {
		u.lost = true
		return 0, nil
	}
	switch v := v.(type) {
	case map[string]any:
		if a.Map != nil && a.Map.ElementRelationship != schema.Atomic {
			if len(v) == 0 {
				return member, nil
			}
			return 0, u.claimsInMap(a.Map, v, live)
		}
	case []any:
		if a.List != nil && a.List.ElementRelationship == schema.Associative {
			return 0, u.claimsInList(a.List, v, live)
		}
	}
	if u.lost = !u.valid(tr, v); equalUntyped(v, live) {
		return member, nil
	}
	if u.lost = u.lost || !u.write; u.lost {
		return 0, nil
	}
	return member | changed, nil // the caller writes it
}

// valid says whether a value is of the type, as far as the schema tells. In doubt it is not.
func (u *untyped) valid(tr schema.TypeRef, v any) bool {
	atom, ok := u.schema.Resolve(tr)
	if !ok {
		return false
	}
	switch v := v.(type) {
	case nil:
		return false // null has rules of its own
	case map[string]any:
		if atom.Map == nil {
			return false
		}
		for name, e := range v {
			tr := atom.Map.ElementType
			if f, known := atom.Map.FindField(name); known {
				tr = f.Type
			}
			if !u.valid(tr, e) {
				return false
			}
		}
		return true
	case []any:
		if atom.List == nil {
			return false
		}
		if atom.List.ElementRelationship == schema.Associative {
			if u.elements(atom.List, v); u.lost {
				return false // an item twice, or without a key
			}
		}
		return !slices.ContainsFunc(v, func(e any) bool { return !u.valid(atom.List.ElementType, e) })
	}
	return atom.Scalar != nil && validScalar(*atom.Scalar, v)
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

func (u *untyped) claimsInMap(t *schema.Map, m map[string]any, live any) (out set) {
	have, _ := live.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		it := item{step: step{text: "f:" + name}}
		f, known := t.FindField(name)
		tr := t.ElementType
		if known {
			tr = f.Type
		}
		if it.marked, it.sub = u.claims(tr, m[name], get(have, name)); it.marked&changed != 0 {
			have[name] = m[name]
		}
		if !known {
			it.marked |= member
		}
		if u.lost = u.lost || !isPlain(name); it.marked != 0 || len(it.sub) > 0 {
			out = append(out, it)
		}
	}
	return out
}

func (u *untyped) claimsInList(t *schema.List, l []any, live any) (out set) {
	all, _ := live.([]any)
	have, before := u.elements(t, all), -1
	for _, v := range l {
		keys := u.keys(t, v)
		at, ok := slices.BinarySearchFunc(have, keys, func(e element[any], keys []key) int { return compareKeys(e.keys, keys) })
		if u.lost || !ok || have[at].index <= before {
			u.lost = true
			return nil
		}
		before = have[at].index
		marked, sub := u.claims(t.ElementType, v, have[at].v)
		if marked&changed != 0 {
			all[have[at].index] = v
		}
		out = append(out, item{step{text: keyText(len(t.Keys) == 0, keys), keys: keys}, marked | member, sub})
	}
	slices.SortFunc(out, func(a, b item) int { return a.step.compare(&b.step) })
	return out
}
