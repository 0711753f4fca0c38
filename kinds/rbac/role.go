// Package rbac declares roles and their bindings.
package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// keptUnread: upstream's rules against escalation stand between a deletion and the store. Updates begin with the rules for new objects.
var keptUnread = resource.Quirks{KeptUnread: true, MetaNewFirst: true, Declared: []string{"Required rules[*].verbs",
	"Required subjects[*].name", "Required roleRef.name"}}

// Roles declares the kind.
var Roles = &resource.Def[*rbacv1.Role]{
	GVK: rbacv1.SchemeGroupVersion.WithKind("Role"), Plural: "roles", Namespaced: true, Name: rule.PathSegment,
	CreateOnUpdate: true, Quirks: keptUnread,
	Gated: resource.Gated[*rbacv1.Role]{Validate: resource.Serving(func(on *features.Set, r, _ *rbacv1.Role) field.ErrorList {
		return rules(on, r.Rules, true)
	})},
}

// ClusterRoles declares the kind.
var ClusterRoles = &resource.Def[*rbacv1.ClusterRole]{
	GVK: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), Plural: "clusterroles", Name: rule.PathSegment,
	CreateOnUpdate: true, Quirks: keptUnread,
	Gated: resource.Gated[*rbacv1.ClusterRole]{Validate: resource.Serving(validateClusterRole)},
}

func validateClusterRole(on *features.Set, r, _ *rbacv1.ClusterRole) field.ErrorList {
	errs := rules(on, r.Rules, false)
	if r.AggregationRule == nil {
		return errs
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(r.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs, field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i, s := range r.AggregationRule.ClusterRoleSelectors {
		errs = append(errs, rule.Selector(&s, path.Index(i))...)
		if _, err := metav1.LabelSelectorAsSelector(&s); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), nil, "invalid label selector."))
		}
	}
	return errs
}

func rules(on *features.Set, list []rbacv1.PolicyRule, namespaced bool) (errs field.ErrorList) {
	for i, r := range list {
		errs = append(errs, policyRule(on, r, namespaced, field.NewPath("rules").Index(i))...)
	}
	return errs
}

// policyRule checks that a rule grants something: verbs on resources, or, in cluster roles, on URLs.
func policyRule(on *features.Set, r rbacv1.PolicyRule, namespaced bool, path *field.Path) (errs field.ErrorList) {
	if len(r.Verbs) == 0 {
		needs := ""
		if !on.AtLeast(37) {
			needs = "verbs must contain at least one value"
		}
		errs = append(errs, field.Required(path.Child("verbs"), needs))
	}
	if len(r.NonResourceURLs) > 0 {
		urls := path.Child("nonResourceURLs")
		if namespaced {
			errs = append(errs, field.Invalid(urls, r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
		}
		if len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0 {
			errs = append(errs, field.Invalid(urls, r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
		}
		return errs
	}
	if len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if len(r.Resources) == 0 {
		errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
	return errs
}
