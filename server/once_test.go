package server

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Errors of the same text count once since 1.37, but for definitions and the like, whose rules are not declared.
func TestErrorsOnce(t *testing.T) {
	for _, c := range []struct {
		minor int
		kind  resource.Kind
		want  int
	}{{36, kinds.Pods, 3}, {37, kinds.Pods, 2}, {37, kinds.CustomResourceDefinitions, 3}} {
		on, err := features.New(c.minor, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, b := field.Required(field.NewPath("a"), ""), field.Required(field.NewPath("b"), "")
		if got := toldOnce(on, &Request{Kind: c.kind}, field.ErrorList{a, b, a}); len(got) != c.want {
			t.Errorf("1.%d %s: %v", c.minor, c.kind.Info().Plural, got)
		}
	}
}
