package kinds_test

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

//go:embed testdata/order.yaml
var order []byte

// TestOrder: in which order it is told what is wrong.
func TestOrder(t *testing.T) {
	set := kinds.NewSet()
	var suites []suite
	if err := yaml.UnmarshalStrict(order, &suites); err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		for _, c := range s.Cases {
			t.Run(s.Plural+"/"+c.Name, func(t *testing.T) {
				old, on := resource.Object(nil), version(t, c.In)
				if c.Update || c.Sub != "" {
					old, _ = write(on, decode(t, set, s.Base), nil, "")
				}
				_, errs := write(on, decode(t, set, change(t, s.Base, c.Set, c.Unset)), old, c.Sub, gvkOf(s.Base))
				var got []string
				for _, e := range errs {
					got = append(got, strings.TrimPrefix(string(e.Type), "FieldValue")+" "+e.Field)
				}
				if !slices.Equal(got, c.Want) {
					t.Errorf("\n got %q\nwant %q", got, c.Want)
				}
			})
		}
	}
}

//go:embed testdata/words.yaml
var words []byte

// TestWords: in which words it is told what is wrong.
func TestWords(t *testing.T) {
	set := kinds.NewSet()
	var suites []suite
	if err := yaml.UnmarshalStrict(words, &suites); err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		for _, c := range s.Cases {
			t.Run(s.Plural+"/"+c.Name, func(t *testing.T) {
				old, on := resource.Object(nil), version(t, c.In)
				if c.Update || c.Sub != "" {
					old, _ = write(on, decode(t, set, s.Base), nil, "")
				}
				_, errs := write(on, decode(t, set, change(t, s.Base, c.Set, c.Unset)), old, c.Sub, gvkOf(s.Base))
				var got []string
				for _, e := range errs {
					got = append(got, e.Error())
				}
				if !slices.Equal(got, c.Want) {
					t.Errorf("\n got %q\nwant %q", got, c.Want)
				}
			})
		}
	}
}
