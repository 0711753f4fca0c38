package resource

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
)

// New implements Kind.
func (d *Def[T]) New(gvk schema.GroupVersionKind) Object {
	for _, v := range d.Also {
		if v.GVK == gvk {
			obj := v.New()
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			return obj
		}
	}
	obj := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	obj.GetObjectKind().SetGroupVersionKind(d.GVK)
	return obj
}

// ConvertTo implements Kind.
func (d *Def[T]) ConvertTo(_ context.Context, obj Object, gvk schema.GroupVersionKind) (Object, error) {
	hub, err := d.hub(obj)
	if err != nil || gvk == d.GVK {
		return hub, err
	}
	for _, v := range d.Also {
		if v.GVK == gvk {
			out := v.From(hub)
			out.GetObjectKind().SetGroupVersionKind(gvk)
			return out, nil
		}
	}
	return nil, fmt.Errorf("convert %s to %s: not served", d.GVK, gvk)
}

func (d *Def[T]) hub(obj Object) (T, error) {
	if hub, ok := Opened(obj).(T); ok {
		return hub, nil
	}
	from := obj.GetObjectKind().GroupVersionKind()
	for _, v := range d.Also {
		if v.GVK == from {
			hub := v.To(obj)
			hub.GetObjectKind().SetGroupVersionKind(d.GVK)
			return hub, nil
		}
	}
	var none T
	return none, fmt.Errorf("convert %T: not a served version of %s", obj, d.GVK)
}

// typed returns obj as T; a nil interface becomes a nil T.
func typed[T Object](obj Object) (t T) {
	if obj != nil {
		t = As[T](obj)
	}
	return t
}

// SetDefaults implements Kind.
func (d *Def[T]) SetDefaults(obj Object) { d.defaultAs(nil, obj) }

func (d *Def[T]) defaultAs(on *features.Set, obj Object) {
	if d.Default != nil {
		d.Default(obj.(T))
	}
	if d.Gated.Default != nil {
		d.Gated.Default(on, obj.(T))
	}
}

// EarlyDefaults fills in what a version of the kind does that is served no longer. obj is of the hub.
func EarlyDefaults(k Kind, v schema.GroupVersion, obj Object) {
	if d, ok := k.(interface {
		earlyDefaults(schema.GroupVersion, Object)
	}); ok {
		d.earlyDefaults(v, obj)
	}
}

func (d *Def[T]) earlyDefaults(v schema.GroupVersion, obj Object) {
	if d.Early != nil {
		d.Early(v, obj.(T))
	}
}

// Settle implements Kind.
func (d *Def[T]) Settle(sub string, obj, old Object) { d.settleAs(nil, sub, obj, old) }

func (d *Def[T]) settleAs(on *features.Set, sub string, obj, old Object) {
	t, was := As[T](obj), typed[T](old)
	d.settle(sub, t, was, old)
	if d.Gated.Drop != nil {
		d.Gated.Drop(on, t, was)
	}
}

// settle is the part that no feature has a say in; old is was, or nil.
func (d *Def[T]) settle(sub string, t, was T, old Object) {
	switch sub {
	case "":
		if d.Status && (old != nil || !d.KeepStatus) {
			settleStatus(t, old)
		}
		if d.Prepare != nil {
			d.Prepare(t, was)
		}
		return
	case "status":
		restoreAllBut(t, old, "Status")
		restoreMetadata(d.Quirks.StatusResets, t, old)
		if d.PrepareStatus != nil {
			d.PrepareStatus(t, was)
		}
		return
	}
	for _, p := range d.Parts {
		if p.Name == sub && p.Take != nil {
			p.Take(t, was)
		}
	}
}

// settleStatus clears the status of a new object and keeps that of an old one.
func settleStatus(obj, old Object) {
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

// Check implements Kind.
func (d *Def[T]) Check(sub string, obj, old Object) field.ErrorList {
	return d.checkSub(nil, sub, obj, old)
}

func (d *Def[T]) checkSub(on *features.Set, sub string, obj, old Object) field.ErrorList {
	check, gated := d.Validate, d.Gated.Validate
	switch sub {
	case "", "scale":
	case "status":
		check, gated = d.ValidateStatus, d.Gated.ValidateStatus
	default:
		gated = nil
		check = nil
		for _, p := range d.Parts {
			if p.Name == sub {
				check = p.Validate
			}
		}
	}
	switch {
	case gated != nil:
		return gated(on, As[T](obj), typed[T](old))
	case check == nil:
		return nil
	}
	return check(As[T](obj), typed[T](old))
}

// CheckAs is Kind.Check in a cluster where this is on, for an object that was sent in the given version, which may have
// rules of its own.
func CheckAs(on *features.Set, k Kind, gvk schema.GroupVersionKind, sub string, obj, old Object) field.ErrorList {
	if v, ok := k.(interface {
		checkAs(gvk schema.GroupVersionKind, obj, old Object) (field.ErrorList, bool)
	}); ok && sub == "" {
		if errs, own := v.checkAs(gvk, obj, old); own {
			return errs
		}
	}
	if g, ok := k.(gated); ok {
		return g.checkSub(on, sub, obj, old)
	}
	return k.Check(sub, obj, old)
}

func (d *Def[T]) checkAs(gvk schema.GroupVersionKind, obj, old Object) (field.ErrorList, bool) {
	for _, v := range d.Also {
		if v.GVK == gvk && v.Validate != nil {
			return v.Validate(As[T](obj), typed[T](old)), true
		}
	}
	return nil, false
}

// CheckName implements Kind.
func (d *Def[T]) CheckName(name string, prefix bool) []string {
	if d.Name != nil {
		return d.Name(name, prefix)
	}
	return apivalidation.NameIsDNSSubdomain(name, prefix)
}

// Warnings implements Kind.
func (d *Def[T]) Warnings(obj, old Object) []string { return d.warnAs(nil, obj, old) }

func (d *Def[T]) warnAs(on *features.Set, obj, old Object) (list []string) {
	if d.Warn != nil {
		list = d.Warn(As[T](obj), typed[T](old))
	}
	if d.Gated.Warn != nil {
		list = append(list, d.Gated.Warn(on, As[T](obj), typed[T](old))...)
	}
	return list
}

// GraceOf implements Kind.
func (d *Def[T]) GraceOf(obj Object, asked *int64) int64 {
	if d.Grace == nil {
		return 0
	}
	return d.Grace(Outline[T](obj), asked)
}

// Expiry implements Kind.
func (d *Def[T]) Expiry(obj Object) time.Duration {
	if d.TTL == nil {
		return 0
	}
	return d.TTL(Outline[T](obj))
}

// ScaleOf implements Kind.
func (d *Def[T]) ScaleOf(obj Object) (Scale, bool) {
	if d.Scale == nil {
		return Scale{}, false
	}
	return d.Scale.Get(As[T](obj)), true
}

// SetScale implements Kind.
func (d *Def[T]) SetScale(obj Object, replicas int32) { d.Scale.Set(obj.(T), replicas) }

// Header implements Kind.
func (d *Def[T]) Header() []metav1.TableColumnDefinition { return d.headerAs(nil) }

func (d *Def[T]) headerAs(on *features.Set) (cols []metav1.TableColumnDefinition) {
	for _, c := range d.columnsAs(on) {
		if c.Name == "" {
			continue
		}
		cols = append(cols, metav1.TableColumnDefinition{Name: c.Name, Type: c.Type, Format: c.Format,
			Description: orDefault(c.Description, c.Name), Priority: c.Priority})
	}
	return cols
}

// Row implements Kind.
func (d *Def[T]) Row(obj Object) []any { return d.rowsAs(nil, nil)(obj) }

func (d *Def[T]) rowAs(on *features.Set, obj Object) []any {
	cols := d.columnsAs(on)
	row := make([]any, 0, len(cols))
	seen := Outline[T](obj)
	for _, c := range cols {
		row = append(row, c.Cell(seen))
	}
	return row
}

// RowMarks implements Marked.
func (d *Def[T]) RowMarks(obj Object) []metav1.TableRowCondition {
	if d.Marks == nil {
		return nil
	}
	return d.Marks(Outline[T](obj))
}

// RowOrder implements Sorted.
func (d *Def[T]) RowOrder() func(a, b Object) int {
	if d.Rows == nil {
		return nil
	}
	return func(a, b Object) int { return d.Rows(Outline[T](a), Outline[T](b)) }
}

func (d *Def[T]) columnsAs(on *features.Set) []Column[T] {
	if d.Gated.Columns != nil {
		if cols := d.Gated.Columns(on); cols != nil {
			return cols
		}
	}
	return d.columns()
}

// columns puts NAME first unless the kind has such a column of its own, and falls back to what upstream
// prints for a kind without a printer.
func (d *Def[T]) columns() []Column[T] {
	d.tableOnce.Do(func() {
		d.table = d.Columns
		if d.table == nil {
			d.table = []Column[T]{{Name: "Created At", Type: "date", Cell: func(o T) any {
				return o.GetCreationTimestamp().UTC().Format(time.RFC3339)
			}}}
		}
		if !slices.ContainsFunc(d.table, func(c Column[T]) bool { return c.Name == "Name" }) {
			d.table = append([]Column[T]{Name(func(o T) any { return o.GetName() })}, d.table...)
		}
	})
	return d.table
}

// FieldSet implements Kind.
func (d *Def[T]) FieldSet(obj Object) fields.Set {
	set := fields.Set{"metadata.name": obj.GetName()}
	if d.Namespaced {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	if len(d.Select) == 0 {
		return set
	}
	seen := Outline[T](obj)
	for _, f := range d.Select {
		set[f.Label] = f.Value(seen)
	}
	return set
}

// Pack implements view.Packer.
func (d *Def[T]) Pack(obj Object, text []byte, rev int64) Object {
	t, ok := obj.(T)
	if d.Seal == nil || !ok {
		return obj
	}
	return d.Seal(t, text, rev)
}
