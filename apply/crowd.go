package apply

import (
	"errors"
	"fmt"
	"math"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/kloop-dev/kloop/resource"
)

// maxCrowd bounds the fields or elements side by side that the library is given. It puts each where it belongs among all that came
// before, in no order: 160,000 take a minute of a processor, and hardly more can be stored than are allowed.
//
// Unlike Kubernetes, which takes the minute, an apply of more is refused, and another write leaves owners as they were.
const maxCrowd = 40_000

// dearer weighs a comparison of two elements of a list against one of two names: 12,600 elements are as many as maxCrowd names.
const dearer = 10

// smallest is the size in protobuf below which an object can't have so many.
const smallest = maxCrowd

var errCrowd = errors.New("too many fields lie side by side")

// crowded refuses objects that the library would take too long for.
func (t *Tracker) crowded(w *Write, old resource.Object, next any) error {
	if w.Sub == "scale" {
		return nil
	}
	typ := t.types.of(w.GVK)
	tree := jsonTree{typ.Schema}
	pairs := 0.0
	for _, obj := range []any{old, next} {
		pairs = max(pairs, tree.pairs(tree.resolve(typ.TypeRef), treeOf(obj)))
	}
	if pairs <= maxCrowd*maxCrowd {
		return nil
	}
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%v to find out who owns them: %.0f, and %d are allowed", errCrowd,
		math.Sqrt(pairs), maxCrowd))
}

// treeOf is an object as decoded JSON; nil for one that is too small to matter, and for one that can't be read, which the library says.
func treeOf(obj any) any {
	switch o := obj.(type) {
	case map[string]any:
		return o
	case runtime.Unstructured:
		return o.UnstructuredContent()
	case interface{ Size() int }:
		if o.Size() < smallest {
			return nil
		}
		if m, err := content(obj.(runtime.Object)); err == nil {
			return m
		}
	}
	return nil
}

// pairs counts how often two fields or elements that lie side by side meet, at most.
func (t jsonTree) pairs(p place, v any) (n float64) {
	switch v := v.(type) {
	case map[string]any:
		if m := p.atom.Map; m != nil && m.ElementRelationship != schema.Atomic {
			n = float64(len(v)) * float64(len(v))
			for name, e := range v {
				child, _ := t.field(m, name)
				n += t.pairs(child, e)
			}
		}
	case []any:
		if l := p.atom.List; l != nil && l.ElementRelationship == schema.Associative {
			n = dearer * float64(len(v)) * float64(len(v))
			for _, e := range v {
				n += t.pairs(t.resolve(l.ElementType), e)
			}
		}
	}
	return n
}
