package apply

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// fastCreate makes the object that is applied for the first time: it is the patch itself, and its manager owns
// what the patch says. It returns nil when in doubt: the library merges, and says what is wrong.
func (t *Tracker) fastCreate(w *Write, doc map[string]any) resource.Object {
	if gv, kind := w.GVK.ToAPIVersionAndKind(); w.Sub != "" || doc["apiVersion"] != gv || doc["kind"] != kind {
		return nil
	}
	typ := t.types.of(w.GVK)
	if tree := (jsonTree{typ.Schema}); !tree.valid(tree.resolve(typ.TypeRef), doc) {
		return nil
	}
	obj := w.Kind.New(w.GVK)
	if u, ok := obj.(runtime.Unstructured); ok {
		u.SetUnstructuredContent(doc)
	} else if raw, err := codec.MarshalJSON(doc); err != nil {
		return nil
	} else if strict, err := codec.UnmarshalJSON(raw, obj); err != nil || len(strict) > 0 {
		return nil
	}
	scratch := newPile(true)
	defer scratch.done()
	set, ok := t.claims(w, obj, doc, scratch, false)
	if set = set.withoutResets(w); !ok || len(set) == 0 {
		return nil
	}
	now := stamp(w.Now)
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: managerName(w.Manager), Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: w.GVK.GroupVersion().String(), Time: &now, FieldsType: "FieldsV1", FieldsV1: fieldsOf(set)}})
	return obj
}
