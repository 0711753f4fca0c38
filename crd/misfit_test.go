package crd

import (
	"testing"

	"github.com/kloop-dev/kloop/resource"
)

// An object with very many mistakes is told some of them, and one whose only mistake stands behind many values that the library
// must judge is told that.
func TestMisfits(t *testing.T) {
	list := func(n int, of any) (out []any) {
		for range n {
			out = append(out, of)
		}
		return out
	}
	for name, c := range map[string]struct {
		schema string
		spec   any
		least  int
		most   int
	}{
		"few":  {"{type: array, items: {type: integer}}", append(list(50, int64(1)), list(20, "x")...), 20, 20},
		"many": {"{type: array, items: {type: integer}}", append(list(50, int64(1)), list(30000, "x")...), maxMisfits, maxMisfits + 1},
		"items": {"{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: " +
			"{type: object, required: [k], properties: {k: {type: string}}}}", list(30000, int64(1)), maxMisfits, maxMisfits + 2},
		"bare": {"{type: array, items: {type: object, required: [k], properties: {k: {type: string}}}}", list(30000, map[string]any{}),
			maxMisfits, maxMisfits + 2},
		"last":  {"{type: array, items: {type: integer, not: {enum: [5]}}}", append(list(3000, int64(1)), int64(5)), 1, 1},
		"sound": {"{type: array, items: {type: integer, not: {enum: [5]}}}", list(3000, int64(1)), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := kindOf(t, c.schema)
			obj := &Object{}
			obj.Object = map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "n"}, "spec": c.spec}
			errs := k.Check(nil, nil, "", resource.Object(obj), nil)
			if len(errs) < c.least || len(errs) > c.most {
				t.Errorf("%s: %d errors, want %d to %d", name, len(errs), c.least, c.most)
			}
		})
	}
}
