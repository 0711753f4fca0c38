package core

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// What a scope can narrow.
var (
	podCounts  = sets.New[corev1.ResourceName]("pods")
	podAmounts = sets.New[corev1.ResourceName]("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
	claims     = sets.New[corev1.ResourceName]("persistentvolumeclaims", "requests.storage")
)

// scopes tells for each scope which of the standard resources it can narrow.
var scopes = map[corev1.ResourceQuotaScope]sets.Set[corev1.ResourceName]{
	corev1.ResourceQuotaScopeTerminating:               podCounts.Union(podAmounts),
	corev1.ResourceQuotaScopeNotTerminating:            podCounts.Union(podAmounts),
	corev1.ResourceQuotaScopeNotBestEffort:             podCounts.Union(podAmounts),
	corev1.ResourceQuotaScopePriorityClass:             podCounts.Union(podAmounts),
	corev1.ResourceQuotaScopeCrossNamespacePodAffinity: podCounts.Union(podAmounts),
	corev1.ResourceQuotaScopeBestEffort:                podCounts,
	corev1.ResourceQuotaScopeVolumeAttributesClass:     claims,
}

var opposites = [][2]corev1.ResourceQuotaScope{{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
	{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating}}

func isQuotaResource(n corev1.ResourceName) bool {
	return podspec.IsStandardResource(n) && n != corev1.ResourceStorage
}

// quotaResources are the standard resources that a quota limits, in order.
func quotaResources(q *corev1.ResourceQuota) []corev1.ResourceName {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(q.Spec.Hard)), func(n corev1.ResourceName) bool { return !isQuotaResource(n) })
}

// validateQuota freezes the scopes: what is used was counted by them.
func validateQuota(q, old *corev1.ResourceQuota) field.ErrorList {
	errs := validateHard(q.Spec.Hard, specPath.Child("hard"))
	errs = append(errs, validateScopes(q, specPath.Child("scopes"))...)
	if q.Spec.ScopeSelector != nil {
		errs = append(errs, validateScopeSelector(q, specPath.Child("scopeSelector", "matchExpressions"))...)
	}
	if old == nil {
		return errs
	}
	is, was := sets.New(q.Spec.Scopes...), sets.New(old.Spec.Scopes...)
	if !is.Equal(was) {
		errs = append(errs, field.Invalid(specPath.Child("scopes"), q.Spec.Scopes, "field is immutable"))
	}
	return errs
}

func validateQuotaStatus(q, _ *corev1.ResourceQuota) field.ErrorList {
	return append(validateHard(q.Status.Hard, statusPath.Child("hard")), validateHard(q.Status.Used, statusPath.Child("used"))...)
}

// validateHard takes standard resources, count/RESOURCE.GROUP and extended ones.
func validateHard(list corev1.ResourceList, path *field.Path) (errs field.ErrorList) {
	for _, n := range slices.Sorted(maps.Keys(list)) {
		at := path.Key(string(n))
		errs = append(errs, podspec.ValidateResourceName(n, at)...)
		if !strings.Contains(string(n), "/") && !isQuotaResource(n) {
			errs = append(errs, field.Invalid(at, n, "must be a standard resource for quota"))
		}
		errs = append(errs, podspec.ValidateQuantity(n, list[n], at)...)
	}
	return errs
}

// maxOutOfScope bounds the errors about scopes that mean nothing: there is one for each scope and resource.
const maxOutOfScope = 10_000

func validateScopes(q *corev1.ResourceQuota, path *field.Path) (errs field.ErrorList) {
	names := quotaResources(q)
	for _, s := range q.Spec.Scopes {
		if len(errs) < maxOutOfScope {
			errs = append(errs, validateScope(s, q.Spec.Scopes, names, path, path)...)
		}
	}
	return append(errs, opposed(q.Spec.Scopes, q.Spec.Scopes, path)...)
}

// validateScope checks that a scope exists and means something for everything that is limited.
// A scope that is not there is said to be wrong by name, one that means nothing by all of them, as shown.
func validateScope(s corev1.ResourceQuotaScope, shown any, names []corev1.ResourceName, name, path *field.Path) (errs field.ErrorList) {
	narrows, known := scopes[s]
	if !known {
		if name == path {
			return field.ErrorList{field.Invalid(name, shown, "unsupported scope")}
		}
		return field.ErrorList{field.Invalid(name, s, "unsupported scope")}
	}
	for _, n := range names {
		if !narrows.Has(n) {
			errs = append(errs, field.Invalid(path, shown, "unsupported scope applied to resource"))
		}
	}
	return errs
}

// opposed complains of scopes that nothing can be in together. What is shown are the scopes beside a selector, also for one.
func opposed(list, shown []corev1.ResourceQuotaScope, path *field.Path) (errs field.ErrorList) {
	for _, p := range opposites {
		if slices.Contains(list, p[0]) && slices.Contains(list, p[1]) {
			errs = append(errs, field.Invalid(path, shown, "conflicting scopes"))
		}
	}
	return errs
}

// validateScopeSelector checks requirements; their errors lack the index, clients know them so.
func validateScopeSelector(q *corev1.ResourceQuota, path *field.Path) (errs field.ErrorList) {
	var list []corev1.ResourceQuotaScope
	names := quotaResources(q)
	for _, r := range q.Spec.ScopeSelector.MatchExpressions {
		if list = append(list, r.ScopeName); len(errs) < maxOutOfScope {
			errs = append(errs, validateScope(r.ScopeName, q.Spec.ScopeSelector, names, path.Child("scopeName"), path)...)
		}
		valued := r.ScopeName == corev1.ResourceQuotaScopePriorityClass || r.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass
		if _, known := scopes[r.ScopeName]; known && !valued && r.Operator != corev1.ScopeSelectorOpExists {
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "must be 'Exists' when scope is any of "+
				"ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "+
				"ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(path.Child("values"),
					"must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				errs = append(errs, field.Invalid(path.Child("values"), r.Values,
					"must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
		}
	}
	return append(errs, opposed(list, q.Spec.Scopes, path)...)
}
