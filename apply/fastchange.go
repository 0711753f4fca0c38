package apply

import (
	"slices"

	"github.com/kloop-dev/kloop/resource"
)

// fastChange applies a patch that owns exactly what its manager owns already, with other values of fields that
// nobody else owns: another image, another number of replicas. It returns nil when in doubt, and for conflicts.
func (t *Tracker) fastChange(w *Write, old resource.Object, doc map[string]any) resource.Object {
	list, mine := appliedBefore(w, old, doc)
	if mine < 0 {
		return nil
	}
	typ := t.types.of(w.GVK)
	tree := jsonTree{typ.Schema}
	root := tree.resolve(typ.TypeRef)
	if !tree.valid(root, doc) {
		return nil
	}
	obj := resource.Clone(old)
	scratch := newPile(true)
	defer scratch.done()
	claims, ok := t.claims(w, obj, doc, scratch, true)
	if claims = claims.withoutResets(w); !ok || len(claims) == 0 {
		return nil
	}
	if !claims.isText(rawFields(&list[mine])) {
		return nil
	}
	diff := claims.only(changed)
	out := slices.Clone(list)
	for i := range out {
		had, ok := setOf(&out[i])
		if !ok || !fits(tree, had, root) {
			return nil
		}
		if _, apart := had.minus(diff, member); !apart && i != mine {
			return nil
		}
	}
	now := stamp(w.Now)
	out[mine].Time = &now
	order(out)
	obj.SetManagedFields(out)
	return obj
}
