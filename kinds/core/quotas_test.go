package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestQuotaScopesSay compares what is said of scopes, word by word.
func TestQuotaScopesSay(t *testing.T) {
	quota := func(spec corev1.ResourceQuotaSpec) *corev1.ResourceQuota {
		spec.Hard = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		return &corev1.ResourceQuota{Spec: spec}
	}
	selecting := func(scope corev1.ResourceQuotaScope, op corev1.ScopeSelectorOperator) *corev1.ResourceQuota {
		return quota(corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{
			MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: scope, Operator: op}}}})
	}
	for _, c := range []struct {
		name string
		q    *corev1.ResourceQuota
		want string
	}{
		{"unknown scope", quota(corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{"Odd"}}),
			`spec.scopes: Invalid value: ["Odd"]: unsupported scope`},
		{"scope that does not fit the resource",
			quota(corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}}),
			`spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource`},
		{"unknown scope in a selector", selecting("Odd", corev1.ScopeSelectorOpExists),
			`spec.scopeSelector.matchExpressions.scopeName: Invalid value: "Odd": unsupported scope`},
		{"selector without values", selecting(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpIn),
			`for scope selector`},
		{"scope that knows Exists alone", selecting(corev1.ResourceQuotaScopeTerminating, corev1.ScopeSelectorOpDoesNotExist),
			`"DoesNotExist": must be 'Exists' when scope is any of`},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := ResourceQuotas.Check(nil, nil, "", c.q, nil)
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) {
				t.Errorf("%v\nwant %s", errs, c.want)
			}
		})
	}
}
