package httpapi

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kloop-dev/kloop/kinds"
)

// An annotation that stands for a number which the version has no field for must be one.
func TestHiddenNumber(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"number", "7", ""},
		{"none", "", ""},
		{"word", "x", `strconv.ParseInt: parsing "x": invalid syntax`},
		{"too large", "99999999999999999999", `strconv.ParseInt: parsing "99999999999999999999": value out of range`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &appsv1.DaemonSet{}
			d.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: c.value}
			got := ""
			if err := checkHidden(kinds.DaemonSets.Info().Hides, d); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
