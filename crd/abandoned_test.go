package crd

import (
	"context"
	"errors"
	"strings"
	"testing"

	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/kloop-dev/kloop/resource/codec"
)

// impatient is a context that ends when it was looked at a few times.
type impatient struct {
	context.Context
	looks int
}

// Err implements context.Context.
func (i *impatient) Err() error {
	if i.looks--; i.looks < 0 {
		return context.Canceled
	}
	return nil
}

// The rules of an object are evaluated no further once its client is gone, and nothing is judged a second time. What they cost is counted.
func TestAbandonedRulesEnd(t *testing.T) {
	k := kindOf(t, "{type: array, maxItems: 1000, items: {type: integer, x-kubernetes-validations: [{rule: self > 0}]}}")
	r, err := k.at.rules()
	if err != nil {
		t.Fatal(err)
	}
	library := 0
	r.stock = func() (*libraryValidator, error) { library++; return nil, errors.New("the library was asked") }
	o := k.New(k.Info().GVK).(*Object)
	text := `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":[1` + strings.Repeat(",1", 499) + `]}`
	if _, err := codec.UnmarshalJSON([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	tree, err := k.tree(o)
	if err != nil {
		t.Fatal(err)
	}
	spent := func(looks int) int64 {
		left := int64(celconfig.RuntimeCELCostBudget)
		if held := r.tree.holds(&impatient{t.Context(), looks}, tree, nil, &left); held != (looks > 1000) {
			t.Errorf("all rules hold after %d looks: %v", looks, held)
		}
		return celconfig.RuntimeCELCostBudget - left
	}
	if all, some := spent(10000), spent(20); all == 0 || some == 0 || some*20 > all {
		t.Errorf("the rules cost %d, and %d of it was spent for a client that was gone after 20 of 500", all, some)
	}
	errs := k.CheckWarn(&impatient{t.Context(), 20}, nil, "", o, nil, func(string) {})
	if len(errs) == 0 || library > 0 {
		t.Errorf("an object that nobody waits for is judged %v, and the library was asked %d times", errs, library)
	}
}
