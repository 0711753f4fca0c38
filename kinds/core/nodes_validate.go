package core

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// validateNode checks spec and status alike, because both come with a new node.
func validateNode(n, old *v1.Node) field.ErrorList {
	errs := validateAmounts(n.Status.Capacity, "capacity")
	errs = append(errs, validateAmounts(n.Status.Allocatable, "allocatable")...)
	errs = append(errs, validateTaints(n.Spec.Taints, field.NewPath("metadata", "taints"))...)
	errs = append(errs, validateRanges(n.Spec.PodCIDRs, specPath.Child("podCIDRs"))...)
	if old != nil {
		errs = append(errs, validateNodeUpdate(n, old)...)
	}
	return errs
}

func validateAmounts(list v1.ResourceList, name string) (errs field.ErrorList) {
	for _, r := range slices.Sorted(maps.Keys(list)) {
		errs = append(errs, podspec.ValidateQuantity(r, list[r], statusPath.Child(name, string(r)))...)
	}
	return errs
}

func validateTaints(list []v1.Taint, path *field.Path) (errs field.ErrorList) {
	type key struct {
		key    string
		effect v1.TaintEffect
	}
	seen := sets.New[key]()
	for i, t := range list {
		at := path.Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
		errs = append(errs, rule.Format(t.Value, at.Child("value"), utilvalidation.IsValidLabelValue)...)
		errs = append(errs, podspec.ValidateTaintEffect(t.Effect, at.Child("effect"))...)
		k := key{t.Key, t.Effect}
		if seen.Has(k) {
			e := field.Duplicate(at, t)
			e.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, e)
		}
		seen.Insert(k)
	}
	return errs
}

func validateRanges(list []string, path *field.Path) (errs field.ErrorList) {
	for i, r := range list {
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(path.Index(i), r, true, nil)...)
	}
	if len(list) > 2 || len(list) == 2 && strings.Contains(list[0], ":") == strings.Contains(list[1], ":") {
		errs = append(errs, field.Invalid(path, list, "may specify no more than one CIDR for each IP family"))
	}
	return errs
}

func validateNodeUpdate(n, old *v1.Node) (errs field.ErrorList) {
	seen := sets.New[v1.NodeAddress]()
	for i, a := range n.Status.Addresses {
		if seen.Has(a) {
			errs = append(errs, field.Duplicate(statusPath.Child("addresses").Index(i), a))
		}
		seen.Insert(a)
	}
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(n.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(specPath.Child("podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
	}
	if old.Spec.ProviderID != "" && n.Spec.ProviderID != old.Spec.ProviderID {
		errs = append(errs, field.Forbidden(specPath.Child("providerID"), "node updates may not change providerID except from \"\" to valid"))
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(specPath.Child("externalID"), "may not be updated"))
	}
	return errs
}
