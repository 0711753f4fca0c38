package converge

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// Rules are the knowledge of kinds. The zero value knows only what holds for objects of all kinds. A program links the rules
// that it names: no variable holds them all.
type Rules struct {
	Situations []Situation // the most telling first: of several that hold for an object, the first is shown
	Refusals   []Situation // those of them that explain an object that is as it should be though its loop fails
	Healths    map[schema.GroupResource]Judge
	// custom judges objects of kinds that users defined, which healths does not have.
	Custom func(w *World, k resource.Kind, obj resource.Object, tree map[string]any) Health
	// rest explains an object that rests on purpose.
	Rest func(w *World, k resource.Kind, obj resource.Object) *convergence.Gap
}
