package resource

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
)

// gated is implemented by kinds with rules that depend on what is on.
type gated interface {
	headerAs(on *features.Set) []metav1.TableColumnDefinition
	rowsAs(on *features.Set, list []Object) func(obj Object) []any
	relatesRows() bool
	countsAs(on *features.Set) bool
	defaultAs(on *features.Set, obj Object)
	settleAs(on *features.Set, sub string, obj, old Object)
	checkSub(on *features.Set, sub string, obj, old Object) field.ErrorList
	warnAs(on *features.Set, obj, old Object) []string
}

// HeaderAs is Kind.Header in a cluster where this is on.
func HeaderAs(on *features.Set, k Kind) []metav1.TableColumnDefinition {
	if g, ok := k.(gated); ok {
		return g.headerAs(on)
	}
	return k.Header()
}

// RowsAs returns Kind.Row for the objects of a list, in a cluster where this is on. list may be nil for kinds whose rows depend on
// one object each.
func RowsAs(on *features.Set, k Kind, list []Object) func(obj Object) []any {
	if g, ok := k.(gated); ok {
		return g.rowsAs(on, list)
	}
	return k.Row
}

// RelatesRows says whether the rows of a kind depend on the whole list.
func RelatesRows(k Kind) bool {
	g, ok := k.(gated)
	return ok && g.relatesRows()
}

func (d *Def[T]) relatesRows() bool { return d.Among != nil }

func (d *Def[T]) rowsAs(on *features.Set, list []Object) func(obj Object) []any {
	if d.Among == nil {
		return func(obj Object) []any { return d.rowAs(on, obj) }
	}
	var all []T
	for _, obj := range list {
		all = append(all, Outline[T](obj))
	}
	among := d.Among(on, all)
	return func(obj Object) []any {
		cells := d.rowAs(on, obj)
		among(Outline[T](obj), cells)
		return cells
	}
}

// CountsAs says whether metadata.generation counts changes of the kind in a cluster where this is on.
func CountsAs(on *features.Set, k Kind) bool {
	if g, ok := k.(gated); ok {
		return g.countsAs(on)
	}
	return k.Info().Generation
}

func (d *Def[T]) countsAs(on *features.Set) bool {
	if d.Gated.Generation != nil {
		return d.Gated.Generation(on)
	}
	return d.Generation
}

// DefaultsAs is Kind.SetDefaults in a cluster where this is on.
func DefaultsAs(on *features.Set, k Kind, obj Object) {
	if g, ok := k.(gated); ok {
		g.defaultAs(on, obj)
		return
	}
	k.SetDefaults(obj)
}

// SettleAs is Kind.Settle in a cluster where this is on.
func SettleAs(on *features.Set, k Kind, sub string, obj, old Object) {
	if g, ok := k.(gated); ok {
		g.settleAs(on, sub, obj, old)
		return
	}
	k.Settle(sub, obj, old)
}

// WarningsAs is Kind.Warnings in a cluster where this is on.
func WarningsAs(on *features.Set, k Kind, obj, old Object) []string {
	if g, ok := k.(gated); ok {
		return g.warnAs(on, obj, old)
	}
	return k.Warnings(obj, old)
}
