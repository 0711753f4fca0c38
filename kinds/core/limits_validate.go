package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// validateLimitRange takes each type once: two items of a type could contradict each other.
func validateLimitRange(l, _ *corev1.LimitRange) (errs field.ErrorList) {
	types := sets.New[corev1.LimitType]()
	for i := range l.Spec.Limits {
		it, at := &l.Spec.Limits[i], specPath.Child("limits").Index(i)
		errs = append(errs, validateLimitType(it.Type, at.Child("type"))...)
		if types.Has(it.Type) {
			errs = append(errs, field.Duplicate(at.Child("type"), it.Type))
		}
		types.Insert(it.Type)
		errs = append(errs, validateLimitItem(it, at)...)
	}
	return errs
}

func validateLimitType(t corev1.LimitType, path *field.Path) field.ErrorList {
	if bad := rule.Format(string(t), path, utilvalidation.IsQualifiedName); len(bad) > 0 {
		return bad
	}
	known := t == corev1.LimitTypePod || t == corev1.LimitTypeContainer || t == corev1.LimitTypePersistentVolumeClaim
	if !known && !strings.Contains(string(t), "/") {
		return field.ErrorList{field.Invalid(path, t, "must be a standard limit type or fully qualified")}
	}
	return nil
}

// validateLimitItem knows no default for whole pods: it is containers that get resources. A claim's limit needs a bound for storage, the
// only thing that it could bound.
func validateLimitItem(it *corev1.LimitRangeItem, path *field.Path) (errs field.ErrorList) {
	named := podspec.ValidateResourceName
	if it.Type == corev1.LimitTypePod || it.Type == corev1.LimitTypeContainer {
		named = podspec.ValidateContainerResourceName
	}
	names := sets.New[corev1.ResourceName]()
	for _, f := range []struct {
		name string
		list corev1.ResourceList
	}{{"max", it.Max}, {"min", it.Min}, {"default", it.Default}, {"defaultRequest", it.DefaultRequest}, {"maxLimitRequestRatio",
		it.MaxLimitRequestRatio}} {
		if strings.HasPrefix(f.name, "default") && it.Type == corev1.LimitTypePod {
			if len(f.list) > 0 {
				errs = append(errs, field.Forbidden(path.Child(f.name), "may not be specified when `type` is 'Pod'"))
			}
			continue
		}
		for _, n := range slices.Sorted(maps.Keys(f.list)) {
			errs = append(errs, named(n, path.Child(f.name).Key(string(n)))...)
			names.Insert(n)
		}
	}
	_, low := it.Min[corev1.ResourceStorage]
	if _, high := it.Max[corev1.ResourceStorage]; it.Type == corev1.LimitTypePersistentVolumeClaim && !low && !high {
		errs = append(errs, field.Required(path.Child("limits"), "either minimum or maximum storage value is required, but neither was provided"))
	}
	for _, n := range sets.List(names) {
		errs = append(errs, validateLimitOrder(it, n, path)...)
	}
	return errs
}

// validateLimitOrder checks that for one resource min ≤ defaultRequest ≤ default ≤ max.
func validateLimitOrder(it *corev1.LimitRangeItem, n corev1.ResourceName, path *field.Path) (errs field.ErrorList) {
	def, request := it.Default, it.DefaultRequest
	if it.Type == corev1.LimitTypePod {
		def, request = nil, nil
	}
	for _, p := range []struct {
		low, high   corev1.ResourceList
		says, blame string
		shown       corev1.ResourceList // one of the two, as the wrong value
	}{{it.Min, it.Max, "min value %s is greater than max value %s", "min", it.Min},
		{it.Min, request, "min value %s is greater than default request value %s", "defaultRequest", request},
		{request, it.Max, "default request value %s is greater than max value %s", "defaultRequest", request},
		{request, def, "default request value %s is greater than default limit value %s", "defaultRequest", request},
		{it.Min, def, "min value %s is greater than default value %s", "default", it.Min},
		{def, it.Max, "default value %s is greater than max value %s", "default", it.Max}} {
		low, hasLow := p.low[n]
		high, hasHigh := p.high[n]
		if hasLow && hasHigh && low.Cmp(high) > 0 {
			at, shown := path.Child(p.blame).Key(string(n)), p.shown[n]
			errs = append(errs, field.Invalid(at, shown.String(), fmt.Sprintf(p.says, low.String(), high.String())))
		}
	}
	r, hasRequest := request[n]
	if d, ok := def[n]; ok && hasRequest && !podspec.IsOvercommitAllowed(n) && d.Cmp(r) != 0 {
		errs = append(errs, field.Invalid(path.Child("defaultRequest").Key(string(n)), r.String(),
			fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", d.String(), r.String(), n)))
	}
	return append(errs, validateRatio(it, n, path.Child("maxLimitRequestRatio").Key(string(n)))...)
}

// validateRatio bounds limit divided by request. A ratio above max/min could never be reached, so it is taken for a mistake. Upstream
// compares in thousandths while these fit.
func validateRatio(it *corev1.LimitRangeItem, n corev1.ResourceName, path *field.Path) (errs field.ErrorList) {
	ratio, ok := it.MaxLimitRequestRatio[n]
	if !ok {
		return nil
	}
	if ratio.Cmp(resource.MustParse("1")) < 0 {
		errs = append(errs, field.Invalid(path, ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio.String())))
	}
	low, hasLow := it.Min[n]
	high, hasHigh := it.Max[n]
	if !hasLow || !hasHigh {
		return errs
	}
	r, l, h := float64(ratio.Value()), low.Value(), high.Value()
	if max(ratio.Value(), l, h) < resource.MaxMilliValue {
		r, l, h = float64(ratio.MilliValue())/1000, low.MilliValue(), high.MilliValue()
	}
	if most := float64(h) / float64(l); r > most {
		errs = append(errs, field.Invalid(path, ratio.String(), fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), most)))
	}
	return errs
}
