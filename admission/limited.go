package admission

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/quota"
)

// A LimitedResource can't be had in a namespace without a quota that covers it.
type LimitedResource struct {
	APIGroup      string                                     `json:"apiGroup,omitempty"`
	Resource      string                                     `json:"resource"`
	MatchContains []string                                   `json:"matchContains,omitempty"` // parts of names of what quotas count
	MatchScopes   []corev1.ScopedResourceSelectorRequirement `json:"matchScopes,omitempty"`
}

// covered refuses what is limited and not covered by any of the quotas.
func (s *quotas) covered(r *Request, list []*corev1.ResourceQuota) error {
	var mine []LimitedResource
	for _, l := range s.limited {
		if (schema.GroupResource{Group: l.APIGroup, Resource: l.Resource}) == r.GR() {
			mine = append(mine, l)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	names, scopes := s.limits(r, mine)
	for _, q := range list {
		if !quota.Applies(q, q.Status.Hard, r.GR(), r.Object) {
			continue
		}
		hard := quota.Relevant(r.GR(), q.Status.Hard)
		names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(hard, corev1.ResourceName(n)) })
		scopes = slices.DeleteFunc(scopes, func(c corev1.ScopedResourceSelectorRequirement) bool { return selectsScope(q, c.ScopeName) })
	}
	switch {
	case len(names) > 0:
		return r.Refuse("insufficient quota to consume: %v", strings.Join(names, ","))
	case len(scopes) > 0:
		return Unclassified(fmt.Sprintf("insufficient quota to match these scopes: %v", scopes))
	}
	return nil
}

// limits are the names of what the request uses that is limited, and the limited scopes that it is in.
func (s *quotas) limits(r *Request, mine []LimitedResource) (names []string, scopes []corev1.ScopedResourceSelectorRequirement) {
	use := quota.Usage(r.GR(), r.Object, s.now(), s.more...)
	if r.Op == Update && r.Old != nil {
		use = quota.Less(use, quota.Usage(r.GR(), r.Old, s.now(), s.more...))
	}
	for _, l := range mine {
		for name, amount := range use {
			hit := slices.ContainsFunc(l.MatchContains, func(part string) bool { return strings.Contains(string(name), part) })
			if hit && !amount.IsZero() && !slices.Contains(names, string(name)) {
				names = append(names, string(name))
			}
		}
		for _, c := range l.MatchScopes {
			if r.Op == Create && quota.InScope(c, r.Object) {
				scopes = append(scopes, c)
			}
		}
	}
	slices.Sort(names)
	return names, scopes
}

// selectsScope says that the quota is one for the scope.
func selectsScope(q *corev1.ResourceQuota, scope corev1.ResourceQuotaScope) bool {
	if slices.Contains(q.Spec.Scopes, scope) {
		return true
	}
	return q.Spec.ScopeSelector != nil && slices.ContainsFunc(q.Spec.ScopeSelector.MatchExpressions,
		func(c corev1.ScopedResourceSelectorRequirement) bool { return c.ScopeName == scope })
}
