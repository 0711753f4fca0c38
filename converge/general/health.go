package general

import (
	"fmt"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/resource"
)

// Of gives a rule its type.
func Of[T resource.Object](f func(w *converge.World, obj T) converge.Health) converge.Judge {
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

// Behind says that a controller has not looked at the newest spec.
func Behind(generation, observed int64) (converge.Health, bool) {
	if observed >= generation {
		return converge.Health{}, false
	}
	return converge.Health{Says: "has a spec that its controller has not looked at yet", Want: fmt.Sprintf("metadata.generation=%d",
		generation),
		Have: fmt.Sprintf("status.observedGeneration=%d", observed)}, true
}
