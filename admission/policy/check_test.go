package policy

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/openapi"
)

func TestCheck(t *testing.T) {
	set := kinds.NewSet()
	newest := func(gvk schema.GroupVersionKind) (*spec.Schema, error) { return openapi.Resolved(nil, gvk) }
	c := Checker{Schema: newest, Kind: func(gvr schema.GroupVersionResource) (schema.GroupVersionKind, bool) {
		_, gvk, ok := set.Resource(gvr)
		return gvk, ok
	}}
	const deployments = "matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: " +
		"[deployments, deployments/scale]}]}\n"
	for _, tt := range []struct {
		name, spec string
		want       []string // field and part of the text, in turns
	}{
		{"fits", deployments +
			"validations: [{expression: 'object.spec.replicas > 1', messageExpression: \"'has ' + string(object.spec.replicas)\"}]", nil},
		{"wrong type", deployments + "validations: [{expression: \"object.spec.replicas > '1'\"}]",
			[]string{"spec.validations[0].expression",
				"apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'"}},
		{"unknown field", deployments +
			"validations: [{expression: 'true'}, {expression: 'object.replicas > 1', messageExpression: 'object.nothing'}]",
			[]string{"spec.validations[1].expression", "undefined field 'replicas'", "spec.validations[1].messageExpression",
				"undefined field 'nothing'"}},
		{"variables",
			deployments + "variables: [{name: num, expression: object.spec.replicas}]\nvalidations: [{expression: \"variables.num == 'a'\"}]",
			[]string{"spec.validations[0].expression", "applied to '(int, string)'"}},
		{"several types",
			"matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods, configmaps]}]}\n" +
				"validations: [{expression: has(object.data)}]",
			[]string{"spec.validations[0].expression", "/v1, Kind=Pod: ERROR"}},
		{"params",
			deployments +
				"paramKind: {apiVersion: v1, kind: ConfigMap}\nvalidations: [{expression: 'params.nothing == 1'}, " +
				"{expression: \"params.data['a'] == 'b'\"}]",
			[]string{"spec.validations[0].expression", "undefined field 'nothing'"}},
		{"anything",
			"matchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: [v1], operations: ['*'], resources: [pods]}]}\n" +
				"validations: [{expression: object.nothing}]", nil},
		{"nothing known",
			"matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: ['*'], resources: [widgets]}]}\n" +
				"validations: [{expression: object.nothing}]", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			if err := yaml.UnmarshalStrict([]byte(tt.spec), &p.Spec); err != nil {
				t.Fatal(tt.name, err)
			}
			got, err := c.Check(p)
			if err != nil || len(got)*2 != len(tt.want) {
				t.Errorf("%s: %v, %v", tt.name, got, err)
				return
			}
			for i, w := range got {
				if w.FieldRef != tt.want[2*i] || !strings.Contains(w.Warning, tt.want[2*i+1]) {
					t.Errorf("%s: %s %q, want %q", tt.name, w.FieldRef, w.Warning, tt.want[2*i:2*i+2])
				}
			}
		})
	}
}
