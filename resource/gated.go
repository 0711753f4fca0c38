package resource

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
)

// gated is implemented by kinds with rules that depend on what is on.
type gated interface {
	headerAs(on *features.Set) []metav1.TableColumnDefinition
	rowAs(on *features.Set, obj Object) []any
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

// RowAs is Kind.Row in a cluster where this is on.
func RowAs(on *features.Set, k Kind, obj Object) []any {
	if g, ok := k.(gated); ok {
		return g.rowAs(on, obj)
	}
	return k.Row(obj)
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
