package apply

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// fastChange applies a patch that owns exactly what its manager owns already, with other values of fields that
// nobody else owns: another image, another number of replicas. It returns nil when in doubt, and for conflicts.
func (t *Tracker) fastChange(w *Write, old resource.Object, doc map[string]any) resource.Object {
	list, mine := appliedBefore(w, old, doc)
	if mine < 0 {
		return nil
	}
	typ := t.types.of(w.GVK)
	u := untyped{schema: typ.Schema}
	if !u.valid(typ.TypeRef, doc) {
		return nil
	}
	obj := resource.Clone(old)
	claims, ok := t.claims(w, obj, doc, true)
	if claims = claims.withoutResets(w); !ok || len(claims) == 0 {
		return nil
	}
	if !bytes.Equal(rawFields(&list[mine]), claims.appendJSON(make([]byte, 0, 512))) {
		return nil
	}
	diff := claims.only(changed)
	out := slices.Clone(list)
	for i := range out {
		had, ok := parseSet(rawFields(&out[i]))
		if !ok || !u.fits(had, typ.TypeRef) {
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

// assign writes a decoded value to its place.
func (d *docWalk) assign(to reflect.Value, v any) {
	if !to.CanSet() {
		d.lost = true
		return
	}
	if made, ok := d.decoded(to.Type(), v); ok {
		to.Set(made)
	}
}

func (d *docWalk) assignEntry(m reflect.Value, name string, v any) {
	if made, ok := d.decoded(m.Type().Elem(), v); ok {
		m.SetMapIndex(reflect.ValueOf(name).Convert(m.Type().Key()), made)
	}
}

func (d *docWalk) decoded(t reflect.Type, v any) (reflect.Value, bool) {
	made := reflect.New(t)
	raw, err := codec.MarshalJSON(v)
	if err == nil {
		var strict []error
		strict, err = codec.UnmarshalJSON(raw, made.Interface())
		d.lost = d.lost || len(strict) > 0
	}
	d.lost = d.lost || err != nil
	return made.Elem(), !d.lost
}

// isZero reports whether a patch sets a plain field to its zero value.
func isZero(v any, field reflect.Value) bool {
	switch v := v.(type) {
	case bool:
		return !v && field.Kind() == reflect.Bool
	case string:
		return v == "" && field.Kind() == reflect.String
	case int64:
		return v == 0 && field.CanInt()
	}
	return false
}
