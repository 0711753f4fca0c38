// Package health judges objects: is one what it should be, from its status and what there is beside it? Built-in kinds have rules of their
// own that agree with kstatus; what users define is judged by generation, conditions, words and parts.
package health

import (
	"fmt"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/resource"
)

// of gives a rule its type.
func of[T resource.Object](f func(w *converge.World, obj T) converge.Health) converge.Judge {
	return func(w *converge.World, obj resource.Object) converge.Health {
		if sealed, ok := obj.(resource.Outlined); ok {
			obj = sealed.Outline()
		}
		t, ok := obj.(T)
		if !ok {
			return converge.Health{}
		}
		return f(w, t)
	}
}

// behind says that a controller has not looked at the newest spec.
func behind(generation, observed int64) (converge.Health, bool) {
	if observed >= generation {
		return converge.Health{}, false
	}
	return converge.Health{Says: "has a spec that its controller has not looked at yet", Want: fmt.Sprintf("metadata.generation=%d",
		generation),
		Have: fmt.Sprintf("status.observedGeneration=%d", observed)}, true
}

// short words a shortage: how many of the wanted there are.
func short(wantField string, want int32, haveField string, have int32, what string) converge.Health {
	return converge.Health{Says: fmt.Sprintf("has %d of %d %s", have, want, what), Want: fmt.Sprintf("%s=%d", wantField, want),
		Have: fmt.Sprintf("%s=%d", haveField, have)}
}
