// Package apply changes objects by patches and keeps track of who owns which field.
//
// Ownership is upstream's: metadata.managedFields holds, for each manager, operation, version and subresource,
// the set of fields it last set. A Tracker computes it after an update and resolves server-side apply.
//
// Like upstream, a server calls Tracker.Update on the object as the client sent it, defaulted but before
// admission changes it: what admission adds has no owner. Once the object is in its final form, KeepTimes
// takes new timestamps back if nothing else changed, so that a write without effect stays one.
package apply

import (
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/resource"
)

// A Write says who writes how, for the bookkeeping of field ownership.
type Write struct {
	Kind    resource.Kind
	GVK     schema.GroupVersionKind // version that the caller speaks; objects passed along are of this version
	Manager string
	Sub     string // subresource
	Now     time.Time
	Loses   bool // what can't be accounted for forgets all owners, as up to 1.36
}

// A Tracker keeps metadata.managedFields. It is safe for concurrent use.
type Tracker struct {
	types  types
	stocks smdCache
}

// NewTracker returns a tracker that knows the built-in types. It does no work: schemas are read at the first
// write (see Warm).
func NewTracker() *Tracker { return &Tracker{} }

// Warm reads the schemas ahead of the first write, some milliseconds of CPU. Servers call it in the background.
func (t *Tracker) Warm() { _, _ = builtin() }

// SetSchema makes the type of a custom resource known: which of its lists are sets and maps. Without it
// lists are owned as a whole and maps key by key. A nil schema forgets the type. Call it again whenever the
// definition changes.
func (t *Tracker) SetSchema(gvk schema.GroupVersionKind, s *spec.Schema) error {
	if err := t.types.set(gvk, s); err != nil {
		return err
	}
	t.stocks.forget(gvk.GroupKind())
	return nil
}

// SetSchemaLater is SetSchema with a schema that is made when it is first needed. When that fails, which is logged,
// the type is taken as unknown.
func (t *Tracker) SetSchemaLater(gvk schema.GroupVersionKind, later func() (*spec.Schema, error)) {
	t.types.setLater(gvk, later)
	t.stocks.forget(gvk.GroupKind())
}

// Update sets managedFields on obj, which is about to replace old; old is nil when obj is new. obj may carry
// managedFields from the client, which count unless they are invalid: a list that is empty or holds one empty
// entry forgets all owners. old is not changed. For the scale subresource both are the scaled objects.
//
// Bookkeeping does not fail a write: when it can't be done, as for a list in which nothing tells items apart, obj has the managedFields
// of old, whatever came with it, unless that asked to forget them, or the version that is emulated forgets them. That is logged.
// The error is for misuse only: a kind or version that w.Kind does not serve.
func (t *Tracker) Update(w Write, old, obj resource.Object) error {
	if w.Now.IsZero() {
		w.Now = time.Now()
	}
	if w.Sub != "scale" && !Strangers(w.Kind, w.GVK, old) && t.fastUpdate(&w, old, obj) {
		return nil // it leaves times alone where nothing differs
	}
	m, err := t.smdFor(&w)
	if err != nil {
		return err
	}
	sent := obj.GetManagedFields()
	switch {
	case w.Sub == "scale":
		err = t.updateScale(&w, m, old, obj)
	default:
		if err = t.crowded(&w, old, obj); err == nil {
			err = m.update(&w, old, obj)
		}
	}
	if err != nil {
		obj.SetManagedFields(nil)
		if old != nil && !w.Loses && !forgets(&w, sent) {
			obj.SetManagedFields(slices.Clone(old.GetManagedFields()))
		}
		slog.Warn("field ownership stays as it was", "kind", w.GVK.Kind,
			"object", obj.GetNamespace()+"/"+obj.GetName(), "err", valueless(err))
	}
	KeepTimes(old, obj)
	return nil
}

// Apply merges an applied configuration into old and returns the result, with managedFields
// set, not defaulted, of version w.GVK. old is nil when the object does not exist; it is not changed. When the
// manager claims fields that others own with another value, the error is a conflict that names them all,
// unless force takes them over. For the scale subresource the patch is a Scale; old and result are the scaled
// object. All errors are *apierrors.StatusError. The caller checks name and namespace of the result (CheckName).
func (t *Tracker) Apply(w Write, old resource.Object, c *Configuration, force bool) (resource.Object, error) {
	if w.Now.IsZero() {
		w.Now = time.Now()
	}
	doc := c.doc
	if w.Sub == "scale" || !Strangers(w.Kind, w.GVK, old) {
		if obj := t.fastApply(&w, old, doc); obj != nil {
			KeepTimes(old, obj)
			return obj, nil
		}
	}
	m, err := t.smdFor(&w)
	if err == nil {
		err = t.crowded(&w, old, doc)
	}
	if err != nil {
		return nil, internal(err)
	}
	var obj resource.Object
	if w.Sub == "scale" {
		obj, err = t.applyScale(&w, m, old, doc, force)
	} else {
		obj, err = m.apply(&w, old, doc, force)
	}
	if err != nil {
		return nil, internal(err)
	}
	KeepTimes(old, obj)
	return obj, nil
}

// fastApply answers the common applies without merging; nil leaves it to the library.
func (t *Tracker) fastApply(w *Write, old resource.Object, doc map[string]any) resource.Object {
	switch {
	case old == nil:
		return t.fastCreate(w, doc)
	case t.appliesNothing(w, old, doc):
		return resource.Clone(old)
	}
	return t.fastChange(w, old, doc)
}
