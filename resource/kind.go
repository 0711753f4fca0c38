package resource

import (
	"context"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
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
func (d *Def[T]) SetDefaults(on *features.Set, obj Object) { d.rules().fillIn(on, obj) }

// PrepareForWrite implements Kind.
func (d *Def[T]) PrepareForWrite(on *features.Set, sub string, obj, old Object) {
	d.rules().prepare(on, sub, obj, old)
}

// Check implements Kind.
func (d *Def[T]) Check(on *features.Set, sent *schema.GroupVersionKind, sub string, obj, old Object) field.ErrorList {
	return d.rules().check(on, sent, sub, obj, old)
}

// Warnings implements Kind.
func (d *Def[T]) Warnings(on *features.Set, obj, old Object) []string {
	return d.rules().warn(on, obj, old)
}

// Scaled implements Kind.
func (d *Def[T]) Scaled() *Scaled[Object] { return d.rules().def.Scale }

// Header implements Kind.
func (d *Def[T]) Header(on *features.Set) []metav1.TableColumnDefinition { return d.rules().header(on) }

// Rows implements Kind.
func (d *Def[T]) Rows(on *features.Set, list []Object) func(obj Object) []any {
	return d.rules().rows(on, list)
}

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

// CheckName explains what is wrong with a name for an object of the kind; with prefix it judges a generateName.
func CheckName(k Kind, name string, prefix bool) []string {
	if r, ok := k.(ruled); ok && r.rules().def.Name != nil {
		return r.rules().def.Name(name, prefix)
	}
	if IsLabel(name) {
		return nil
	}
	return apivalidation.NameIsDNSSubdomain(name, prefix)
}

// GraceOf returns for how many seconds a deleted object lingers with a deletionTimestamp for its owner to clean up, given what the caller
// asked for (nil: nothing); 0 removes it at once, as all objects of kinds that users define.
func GraceOf(k Kind, obj Object, asked *int64) int64 {
	if r, ok := k.(ruled); ok && r.rules().def.Grace != nil {
		return r.rules().def.Grace(outlined(obj), asked)
	}
	return 0
}

// Expiry returns after how long the store forgets the object; 0 means never.
func Expiry(k Kind, obj Object) time.Duration {
	if r, ok := k.(ruled); ok && r.rules().def.TTL != nil {
		return r.rules().def.TTL(outlined(obj))
	}
	return 0
}

// ScaleOf returns the scale subresource of obj; ok is false for kinds without one.
func ScaleOf(k Kind, obj Object) (s Scale, ok bool) {
	if how := k.Scaled(); how != nil {
		return how.Get(obj), true
	}
	return s, false
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
	if !ok || r.rules().def.RowOrder == nil {
		return nil
	}
	return func(a, b Object) int { return r.rules().def.RowOrder(outlined(a), outlined(b)) }
}

// RelatesRows says whether the rows of a kind depend on the whole list.
func RelatesRows(k Kind) bool {
	r, ok := k.(ruled)
	return ok && r.rules().def.Among != nil
}

// CountsGeneration says whether metadata.generation counts what changes outside metadata and status. Custom resources are counted.
func CountsGeneration(on *features.Set, k Kind) bool {
	r, ok := k.(ruled)
	if !ok {
		return true
	}
	d := r.rules().def
	if d.Gated.Generation != nil {
		return d.Gated.Generation(on)
	}
	return d.Generation
}
