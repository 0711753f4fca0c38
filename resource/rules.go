package resource

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
)

// rules are a Def whose functions take any object of its type: code that is compiled once, not once a kind. They never change.
type rules struct {
	def   *Def[Object]
	typ   reflect.Type // a pointer
	info  Info
	table []Column[Object] // NAME is one of them
}

func newRules(d *Def[Object], typ reflect.Type) *rules {
	return &rules{def: d, typ: typ, info: infoOf(d), table: tableOf(d.Columns)}
}

// tableOf puts NAME first unless the kind has such a column of its own, and falls back to what upstream prints for a kind without
// a printer.
func tableOf(cols []Column[Object]) []Column[Object] {
	if cols == nil {
		cols = []Column[Object]{{Name: "Created At", Type: "date", Cell: func(o Object) any {
			return o.GetCreationTimestamp().UTC().Format(time.RFC3339)
		}}}
	}
	if !slices.ContainsFunc(cols, func(c Column[Object]) bool { return c.Name == "Name" }) {
		cols = append([]Column[Object]{Name(func(o Object) any { return o.GetName() })}, cols...)
	}
	return cols
}

func (r *rules) create(gvk schema.GroupVersionKind) Object {
	for _, v := range r.def.Also {
		if v.GVK == gvk {
			obj := v.New()
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			return obj
		}
	}
	obj := reflect.New(r.typ.Elem()).Interface().(Object)
	obj.GetObjectKind().SetGroupVersionKind(r.def.GVK)
	return obj
}

func (r *rules) convert(obj Object, gvk schema.GroupVersionKind) (Object, error) {
	hub, err := r.hub(obj)
	if err != nil || gvk == r.def.GVK {
		return hub, err
	}
	for _, v := range r.def.Also {
		if v.GVK == gvk {
			out := v.From(hub)
			out.GetObjectKind().SetGroupVersionKind(gvk)
			return out, nil
		}
	}
	return nil, fmt.Errorf("convert %s to %s: not served", r.def.GVK, gvk)
}

func (r *rules) hub(obj Object) (Object, error) {
	if hub := Opened(obj); reflect.TypeOf(hub) == r.typ {
		return hub, nil
	}
	from := obj.GetObjectKind().GroupVersionKind()
	for _, v := range r.def.Also {
		if v.GVK == from {
			hub := v.To(obj)
			hub.GetObjectKind().SetGroupVersionKind(r.def.GVK)
			return hub, nil
		}
	}
	return nil, fmt.Errorf("convert %T: not a served version of %s", obj, r.def.GVK)
}

func (r *rules) fillIn(on *features.Set, obj Object) {
	if r.def.Default != nil {
		r.def.Default(obj)
	}
	if r.def.Gated.Default != nil {
		r.def.Gated.Default(on, obj)
	}
}

func (r *rules) prepare(on *features.Set, sub string, obj, old Object) {
	obj, old = Opened(obj), Opened(old)
	if !r.def.JSON && !r.def.Virtual && !r.def.Quirks.KeepsEmpty {
		dropEmpty(obj) // before parts of old go into it, which nobody may change
	}
	r.restore(on, sub, obj, old)
	r.drop(on, obj, old)
}

// drop takes out what is of features that are off.
func (r *rules) drop(on *features.Set, obj, old Object) {
	if r.def.Gated.Drop != nil {
		r.def.Gated.Drop(on, obj, old)
	}
}

// restore gives an object what this path may not change. What is off is dropped before a kind compares with old.
func (r *rules) restore(on *features.Set, sub string, obj, old Object) {
	switch sub {
	case "":
		if r.def.Status && (old != nil || !r.def.KeepStatus) {
			resetStatus(obj, old)
		}
		if r.def.Prepare != nil {
			r.drop(on, obj, old)
			r.def.Prepare(obj, old)
		}
		return
	case "status":
		restoreAllBut(obj, old, "Status")
		restoreMetadata(r.def.Quirks.StatusResets, obj, old)
		if r.def.PrepareStatus != nil {
			r.def.PrepareStatus(obj, old)
		}
		return
	}
	for _, p := range r.def.Parts {
		if p.Name == sub && p.Take != nil {
			p.Take(obj, old)
		}
	}
}

// resetStatus clears the status of a new object and keeps that of an old one.
func resetStatus(obj, old Object) {
	st := reflect.ValueOf(obj).Elem().FieldByName("Status")
	if !st.IsValid() {
		return
	}
	if old == nil {
		st.SetZero()
		return
	}
	st.Set(reflect.ValueOf(old).Elem().FieldByName("Status"))
}

// restoreAllBut copies every top-level field of old into obj, except metadata and the named one.
func restoreAllBut(obj, old Object, name string) {
	to, from := reflect.ValueOf(obj).Elem(), reflect.ValueOf(old).Elem()
	for i := range to.NumField() {
		switch to.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", name:
		default:
			to.Field(i).Set(from.Field(i))
		}
	}
}

func (r *rules) check(on *features.Set, sent *schema.GroupVersionKind, sub string, obj, old Object) field.ErrorList {
	errs := r.judge(on, sent, sub, obj, old)
	if on.AtLeast(37) {
		return declaredLast(errs, r.def.Quirks.Declared)
	}
	return errs
}

func (r *rules) judge(on *features.Set, sent *schema.GroupVersionKind, sub string, obj, old Object) field.ErrorList {
	for _, v := range r.def.Also {
		if sent != nil && *sent == v.GVK && sub == "" && v.Validate != nil {
			return v.Validate(obj, old)
		}
	}
	check, gated := r.def.Validate, r.def.Gated.Validate
	switch sub {
	case "", "scale":
	case "status":
		check, gated = r.def.ValidateStatus, r.def.Gated.ValidateStatus
	default:
		check, gated = nil, nil
		for _, p := range r.def.Parts {
			if p.Name == sub {
				gated = p.Validate
			}
		}
	}
	switch {
	case gated != nil:
		return gated(on, obj, old)
	case check == nil:
		return nil
	}
	return check(obj, old)
}

func (r *rules) warn(on *features.Set, obj, old Object) (list []string) {
	if r.def.Warn != nil {
		list = r.def.Warn(obj, old)
	}
	if r.def.Gated.Warn != nil {
		list = append(list, r.def.Gated.Warn(on, obj, old)...)
	}
	return list
}

func (r *rules) columns(on *features.Set) []Column[Object] {
	if r.def.Gated.Columns != nil {
		if cols := r.def.Gated.Columns(on); cols != nil {
			return cols
		}
	}
	return r.table
}

func (r *rules) header(on *features.Set) (cols []metav1.TableColumnDefinition) {
	for _, c := range r.columns(on) {
		if c.Name == "" {
			continue
		}
		cols = append(cols, metav1.TableColumnDefinition{Name: c.Name, Type: c.Type, Format: c.Format,
			Description: orDefault(c.Description, c.Name), Priority: c.Priority})
	}
	return cols
}

func (r *rules) rows(on *features.Set, list []Object) func(obj Object) []any {
	cols := r.columns(on)
	among := func(Object, []any) {}
	if r.def.Among != nil {
		seen := make([]Object, len(list))
		for i, obj := range list {
			seen[i] = outlined(obj)
		}
		among = r.def.Among(on, seen)
	}
	return func(obj Object) []any {
		row, seen := make([]any, 0, len(cols)), outlined(obj)
		for _, c := range cols {
			row = append(row, c.Cell(seen))
		}
		among(seen, row)
		return row
	}
}

func (r *rules) field(obj Object, label string) string {
	switch {
	case label == "metadata.name":
		return obj.GetName()
	case label == "metadata.namespace" && r.def.Namespaced:
		return obj.GetNamespace()
	}
	for _, f := range r.def.Select {
		if f.Label == label {
			return f.Value(outlined(obj))
		}
	}
	return ""
}

func (r *rules) pack(obj Object, text []byte, rev int64) Object {
	if reflect.TypeOf(obj) != r.typ {
		return obj
	}
	shareOwners(obj)
	if r.def.Share != nil {
		r.def.Share(obj)
	}
	if r.def.Seal == nil {
		return obj
	}
	return r.def.Seal(obj, text, rev)
}
