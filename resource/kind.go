package resource

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
)

// A Def is a Kind by its rules. The compiler makes these methods once for each of eighty kinds, so there is nothing in them.

// rules are made when they are first asked for.
func (d *Def[T]) rules() *rules {
	d.once.Do(func() { d.made = erase(d) })
	return d.made
}

// Info implements Kind.
func (d *Def[T]) Info() *Info { return &d.rules().info }

// New implements Kind.
func (d *Def[T]) New(gvk schema.GroupVersionKind) Object { return d.rules().create(gvk) }

// ConvertTo implements Kind.
func (d *Def[T]) ConvertTo(_ context.Context, obj Object, gvk schema.GroupVersionKind) (Object, error) {
	return d.rules().convert(obj, gvk)
}

// SetDefaults implements Kind.
func (d *Def[T]) SetDefaults(obj Object) { d.rules().fillIn(nil, obj) }

// Settle implements Kind.
func (d *Def[T]) Settle(sub string, obj, old Object) { d.rules().settle(nil, sub, obj, old) }

// Check implements Kind.
func (d *Def[T]) Check(sub string, obj, old Object) field.ErrorList {
	return d.rules().check(nil, sub, obj, old)
}

// CheckName implements Kind.
func (d *Def[T]) CheckName(name string, prefix bool) []string {
	return d.rules().checkName(name, prefix)
}

// Warnings implements Kind.
func (d *Def[T]) Warnings(obj, old Object) []string { return d.rules().warn(nil, obj, old) }

// GraceOf implements Kind.
func (d *Def[T]) GraceOf(obj Object, asked *int64) int64 { return d.rules().grace(obj, asked) }

// Expiry implements Kind.
func (d *Def[T]) Expiry(obj Object) time.Duration { return d.rules().expiry(obj) }

// ScaleOf implements Kind.
func (d *Def[T]) ScaleOf(obj Object) (Scale, bool) { return d.rules().scaleOf(obj) }

// SetScale implements Kind.
func (d *Def[T]) SetScale(obj Object, replicas int32) { d.rules().def.Scale.Set(obj, replicas) }

// Header implements Kind.
func (d *Def[T]) Header() []metav1.TableColumnDefinition { return d.rules().header(nil) }

// Row implements Kind.
func (d *Def[T]) Row(obj Object) []any { return d.rules().rows(nil, nil)(obj) }

// Field implements Kind.
func (d *Def[T]) Field(obj Object, label string) string { return d.rules().field(obj, label) }

// Pack implements view.Packer.
func (d *Def[T]) Pack(obj Object, text []byte, rev int64) Object {
	return d.rules().pack(obj, text, rev)
}

// ruled is implemented by kinds that a Def declares.
type ruled interface{ rules() *rules }

// EarlyDefaults fills in what a version of the kind does that is served no longer. obj is of the hub.
func EarlyDefaults(k Kind, v schema.GroupVersion, obj Object) {
	if r, ok := k.(ruled); ok && r.rules().def.Early != nil {
		r.rules().def.Early(v, obj)
	}
}

// CheckAs is Kind.Check in a cluster where this is on, for an object that was sent in the given version, which may have
// rules of its own.
func CheckAs(on *features.Set, k Kind, gvk schema.GroupVersionKind, sub string, obj, old Object) field.ErrorList {
	r, ok := k.(ruled)
	if !ok {
		return k.Check(sub, obj, old)
	}
	for _, v := range r.rules().def.Also {
		if sub == "" && v.GVK == gvk && v.Validate != nil {
			return v.Validate(obj, old)
		}
	}
	return r.rules().check(on, sub, obj, old)
}

// Marks returns the conditions of a row of a table, beside its cells: Completed, of a pod that ended. Most kinds have none.
func Marks(k Kind, obj Object) []metav1.TableRowCondition {
	if r, ok := k.(ruled); ok && r.rules().def.Marks != nil {
		return r.rules().def.Marks(outlined(obj))
	}
	return nil
}

// RowOrder returns the order of the rows in tables of a kind; nil: that of the list.
func RowOrder(k Kind) func(a, b Object) int {
	r, ok := k.(ruled)
	if !ok || r.rules().def.Rows == nil {
		return nil
	}
	return func(a, b Object) int { return r.rules().def.Rows(outlined(a), outlined(b)) }
}

// HeaderAs is Kind.Header in a cluster where this is on.
func HeaderAs(on *features.Set, k Kind) []metav1.TableColumnDefinition {
	if r, ok := k.(ruled); ok {
		return r.rules().header(on)
	}
	return k.Header()
}

// RowsAs returns Kind.Row for the objects of a list, in a cluster where this is on. list may be nil for kinds whose rows depend on
// one object each.
func RowsAs(on *features.Set, k Kind, list []Object) func(obj Object) []any {
	if r, ok := k.(ruled); ok {
		return r.rules().rows(on, list)
	}
	return k.Row
}

// RelatesRows says whether the rows of a kind depend on the whole list.
func RelatesRows(k Kind) bool {
	r, ok := k.(ruled)
	return ok && r.rules().def.Among != nil
}

// CountsAs says whether metadata.generation counts changes of the kind in a cluster where this is on.
func CountsAs(on *features.Set, k Kind) bool {
	if r, ok := k.(ruled); ok && r.rules().def.Gated.Generation != nil {
		return r.rules().def.Gated.Generation(on)
	}
	return k.Info().Generation
}

// DefaultsAs is Kind.SetDefaults in a cluster where this is on.
func DefaultsAs(on *features.Set, k Kind, obj Object) {
	if r, ok := k.(ruled); ok {
		r.rules().fillIn(on, obj)
		return
	}
	k.SetDefaults(obj)
}

// SettleAs is Kind.Settle in a cluster where this is on.
func SettleAs(on *features.Set, k Kind, sub string, obj, old Object) {
	if r, ok := k.(ruled); ok {
		r.rules().settle(on, sub, obj, old)
		return
	}
	k.Settle(sub, obj, old)
}

// WarningsAs is Kind.Warnings in a cluster where this is on.
func WarningsAs(on *features.Set, k Kind, obj, old Object) []string {
	if r, ok := k.(ruled); ok {
		return r.rules().warn(on, obj, old)
	}
	return k.Warnings(obj, old)
}
