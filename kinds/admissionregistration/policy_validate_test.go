package admissionregistration

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestUnknownVariables: what an expression hears of variables that it does not see. A match condition, and a validating policy
// without variables, do not know the word itself.
func TestUnknownVariables(t *testing.T) {
	undeclared, undefined := "undeclared reference to 'variables'", "undefined field 'v'"
	for name, c := range map[string]struct {
		condition, variable string
		mutating            bool
		want                []string // of the condition, of the policy's own expression
	}{
		"a condition, with variables":    {condition: "variables.v == 1", variable: "w", want: []string{undeclared, undefined}},
		"a condition, without variables": {condition: "variables.v == 1", want: []string{undeclared, undeclared}},
		"a condition that mutates":       {condition: "variables.v == 1", mutating: true, want: []string{undeclared, undefined}},
		"a validation, with variables":   {condition: "true", variable: "w", want: []string{undefined}},
		"a mutation, without variables":  {condition: "true", mutating: true, want: []string{undefined}},
	} {
		var match []admissionregistrationv1.MatchCondition
		match = append(match, admissionregistrationv1.MatchCondition{Name: "c", Expression: c.condition})
		var vars []admissionregistrationv1.Variable
		if c.variable != "" {
			vars = []admissionregistrationv1.Variable{{Name: c.variable, Expression: "1"}}
		}
		var errs field.ErrorList
		if c.mutating {
			errs = mutatingSpec(&admissionregistrationv1.MutatingAdmissionPolicySpec{MatchConditions: match, Variables: vars,
				Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{Expression: "variables.v"}}}}, field.NewPath("spec"))
		} else {
			errs = validatingSpec("it", &admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConditions: match, Variables: vars,
				Validations: []admissionregistrationv1.Validation{{Expression: "variables.v == 1"}}}, field.NewPath("spec"))
		}
		var said []string
		for _, err := range errs {
			if strings.Contains(err.Detail, "compilation failed") {
				said = append(said, err.Detail)
			}
		}
		if len(said) != len(c.want) {
			t.Errorf("%s: %q, want %d", name, said, len(c.want))
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(said[i], want) {
				t.Errorf("%s: %q, want one with %s", name, said[i], want)
			}
		}
	}
}
