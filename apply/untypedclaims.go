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
	if m, ok := v.(map[string]any); ok && a.Map != nil && a.Map.ElementRelationship != schema.Atomic {
		if len(m) == 0 {
			return member, nil
		}
		return 0, u.claimsInMap(a.Map, m, live)
	}
	if l, ok := v.([]any); ok && a.List != nil && a.List.ElementRelationship == schema.Associative {
		return 0, u.claimsInList(a.List, l, live)
	}
	u.lost = !equalUntyped(v, live)
	return member, nil
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
		it.marked, it.sub = u.claims(tr, m[name], get(have, name))
		if !known {
			it.marked = member
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
		at, ok := slices.BinarySearchFunc(have, keys, func(e untypedElement, keys []key) int { return compareKeys(e.keys, keys) })
		if u.lost || !ok || have[at].index <= before {
			u.lost = true
			return nil
		}
		before = have[at].index
		_, sub := u.claims(t.ElementType, v, have[at].v)
		out = append(out, item{step{text: keyText(len(t.Keys) == 0, keys), keys: keys}, member, sub})
	}
	slices.SortFunc(out, func(a, b item) int { return a.step.compare(&b.step) })
	return out
}
