package core

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A quota of 20,000 scopes and as many resources is judged, which took minutes when the resources were put in order for each scope, and
// has no error for each pair.
func TestQuotaOfManyScopes(t *testing.T) {
	const many = 20_000
	for _, selector := range []bool{false, true} {
		q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourceServices: resource.MustParse("1"), corev1.ResourceConfigMaps: resource.MustParse("1"),
			corev1.ResourceSecrets: resource.MustParse("1")}}}
		for i := range many {
			q.Spec.Hard[corev1.ResourceName(fmt.Sprint("count/things", i))] = resource.MustParse("1")
			if !selector {
				q.Spec.Scopes = append(q.Spec.Scopes, corev1.ResourceQuotaScopeTerminating)
			}
		}
		if selector {
			q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: make([]corev1.ScopedResourceSelectorRequirement, many)}
			for i := range many {
				q.Spec.ScopeSelector.MatchExpressions[i] = corev1.ScopedResourceSelectorRequirement{
					ScopeName: corev1.ResourceQuotaScopeTerminating, Operator: corev1.ScopeSelectorOpExists}
			}
		}
		if got := len(validateQuota(q, nil)); got < maxOutOfScope || got > maxOutOfScope+10 {
			t.Errorf("selector %v: %d errors, want about %d", selector, got, maxOutOfScope)
		}
	}
}
