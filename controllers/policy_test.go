package controllers_test

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A policy whose expression can't fit the type that it is about says so in its status, once per generation.
func TestPolicyStatus(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		p := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				Validations: []admissionregistrationv1.Validation{{Expression: "object.spec.replicas == 'many'"}},
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule: admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"},
							Resources: []string{"deployments"}}}}}}}}
		make1(c, kinds.ValidatingAdmissionPolicies, p)
		seen := func(generation int64, warnings int) func(resource.Reader) bool {
			return func(r resource.Reader) bool {
				s := resource.Get(r, kinds.ValidatingAdmissionPolicies, "", "p").Status
				found := 0
				if s.TypeChecking != nil {
					found = len(s.TypeChecking.ExpressionWarnings)
				}
				return s.ObservedGeneration == generation && found == warnings
			}
		}
		c.until("the policy is checked", seen(1, 1))
		c.applied(resource.Get(c.Read(), kinds.ValidatingAdmissionPolicies, "", "p"), "validatingadmissionpolicy-status")
		got := resource.Clone(resource.Get(c.Read(), kinds.ValidatingAdmissionPolicies, "", "p"))
		if w := got.Status.TypeChecking.ExpressionWarnings[0]; w.FieldRef != "spec.validations[0].expression" ||
			!strings.Contains(w.Warning, "apps/v1, Kind=Deployment") {
			t.Errorf("warning %v", w)
		}
		got.Spec.Validations[0].Expression = "object.spec.replicas < 5"
		if _, err := c.Update(c.t.Context(), kinds.ValidatingAdmissionPolicies, got, ""); err != nil {
			c.t.Fatal(err)
		}
		c.until("the change is checked", seen(2, 0))
	})
}
