package dra

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

func validateSlice(s, old *resourcev1.ResourceSlice) (errs field.ErrorList) {
	d, spec := &s.Spec, field.NewPath("spec")
	if old != nil {
		errs = append(errs, rule.Frozen(d.Driver, old.Spec.Driver, spec.Child("driver"))...)
		errs = append(errs, rule.Frozen(d.Pool.Name, old.Spec.Pool.Name, spec.Child("pool", "name"))...)
		errs = append(errs, rule.Frozen(d.NodeName, old.Spec.NodeName, spec.Child("nodeName"))...)
	}
	errs = append(errs, driver(d.Driver, spec.Child("driver"))...)
	errs = append(errs, pool(d.Pool, spec.Child("pool"))...)
	errs = append(errs, someNode(d.NodeName, "must be either unset or set to a non-empty string", spec.Child("nodeName"))...)
	errs = append(errs, oneTerm(d.NodeSelector, spec.Child("nodeSelector"))...)
	errs = append(errs, unsetOrTrue(d.AllNodes, spec.Child("allNodes"))...)
	errs = append(errs, unsetOrTrue(d.PerDeviceNodeSelection, spec.Child("perDeviceNodeSelection"))...)
	errs = append(errs, where([]bool{d.NodeName != nil && *d.NodeName != "", d.NodeSelector != nil, is(d.AllNodes),
		is(d.PerDeviceNodeSelection)}, spec,
		"exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required", ", but multiple fields are set")...)
	if d.SharedCounters != nil && d.Devices != nil {
		errs = append(errs, field.Invalid(spec, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	most := resourcev1.ResourceSliceMaxDevices
	if slices.ContainsFunc(d.Devices, func(d resourcev1.Device) bool { return len(d.Taints)+len(d.ConsumesCounters) > 0 }) {
		most = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	errs = append(errs, unlike(d.Devices, most, spec.Child("devices"), func(d resourcev1.Device) string { return d.Name },
		func(dev resourcev1.Device, at *field.Path) field.ErrorList {
			return append(device(dev, before(old, dev.Name), at), reach(dev, is(d.PerDeviceNodeSelection), at)...)
		})...)
	return append(errs, unlike(d.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, spec.Child("sharedCounters"),
		func(c resourcev1.CounterSet) string { return c.Name }, counterSet)...)
}

func counterSet(c resourcev1.CounterSet, path *field.Path) field.ErrorList {
	errs := rule.NeededFormat(c.Name, path.Child("name"), rule.Label)
	return append(errs, counterNames(c.Counters, path.Child("counters"))...)
}

func is(b *bool) bool { return b != nil && *b }

// before returns the stored device of that name, or nil.
func before(old *resourcev1.ResourceSlice, name string) *resourcev1.Device {
	if old == nil {
		return nil
	}
	for i := range old.Spec.Devices {
		if d := &old.Spec.Devices[i]; d.Name == name {
			return d
		}
	}
	return nil
}

// where asks for exactly one way of saying which nodes reach the devices; many is added to what it says if there are more.
func where(ways []bool, path *field.Path, says, many string) field.ErrorList {
	var are []string
	for i, set := range ways {
		if set {
			are = append(are, []string{"`nodeName`", "`nodeSelector`", "`allNodes`", "`perDeviceNodeSelection`"}[i])
		}
	}
	switch len(are) {
	case 0:
		return field.ErrorList{field.Required(path, says)}
	case 1:
		return nil
	}
	return field.ErrorList{field.Invalid(path, "{"+strings.Join(are, ", ")+"}", says+many)}
}

func pool(p resourcev1.ResourcePool, path *field.Path) (errs field.ErrorList) {
	errs = poolName(p.Name, path.Child("name"))
	if p.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(path.Child("resourceSliceCount"), p.ResourceSliceCount, "must be greater than zero"))
	}
	if p.Generation < 0 {
		errs = append(errs, field.Invalid(path.Child("generation"), p.Generation, "must be greater than or equal to zero"))
	}
	return errs
}

// longestKey is the length of the longest name of an attribute or capacity.
const longestKey = resourcev1.DeviceMaxDomainLength + 1 + resourcev1.DeviceMaxIDLength

func device(d resourcev1.Device, old *resourcev1.Device, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, rule.Format(d.Name, path.Child("name"), rule.Label)...)
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		errs = append(errs, field.Invalid(path, n, "the total number of attributes and capacities must not exceed 32"))
	}
	errs = append(errs, entries(d.Attributes, noLimit, path.Child("attributes"), qualified, attribute)...)
	errs = append(errs, entries(d.Capacity, noLimit, path.Child("capacity"), qualified,
		func(c resourcev1.DeviceCapacity, at *field.Path) field.ErrorList {
			return policy(c, is(d.AllowMultipleAllocations), at.Child("requestPolicy"))
		})...)
	errs = append(errs, counters(d.ConsumesCounters, path.Child("consumesCounters"))...)
	errs = append(errs, bindingConditions(d.BindingConditions, d.BindingFailureConditions, path)...)
	if old != nil && resource.Same(d.Taints, old.Taints) {
		return errs
	}
	return append(errs, each(d.Taints, resourcev1.DeviceTaintsMaxLength, path.Child("taints"), taint)...)
}

func attribute(a resourcev1.DeviceAttribute, path *field.Path) (errs field.ErrorList) {
	var set []string
	for _, v := range []struct {
		name string
		is   bool
	}{{"int", a.IntValue != nil}, {"bool", a.BoolValue != nil}, {"string", a.StringValue != nil}, {"version", a.VersionValue != nil},
		{"ints", a.IntValues != nil}, {"bools", a.BoolValues != nil}, {"strings", a.StringValues != nil},
		{"versions", a.VersionValues != nil}} {
		if v.is {
			set = append(set, v.name)
		}
	}
	const one = "one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
	switch len(set) {
	case 0:
		errs = append(errs, field.Invalid(path, "", "must specify "+one))
	case 1:
	default:
		errs = append(errs, field.Invalid(path, "{"+strings.Join(set, ", ")+"}", "must specify exactly "+one))
	}
	if s := a.StringValue; s != nil && len(*s) > resourcev1.DeviceAttributeMaxValueLength {
		errs = append(errs, field.TooLong(path.Child("string"), *s, resourcev1.DeviceAttributeMaxValueLength))
	}
	if s := a.VersionValue; s != nil {
		if len(*s) > resourcev1.DeviceAttributeMaxValueLength {
			errs = append(errs, field.TooLong(path.Child("version"), *s, resourcev1.DeviceAttributeMaxValueLength))
		}
		if !semver.MatchString(*s) {
			errs = append(errs, field.Invalid(path.Child("version"), *s, "must be a string compatible with semver.org spec 2.0.0"))
		}
	}
	return errs
}

func taint(t resourcev1.DeviceTaint, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, rule.Format(t.Key, path.Child("key"), validation.IsQualifiedName)...)
	if t.Value != "" {
		errs = append(errs, rule.Format(t.Value, path.Child("value"), validation.IsValidLabelValue)...)
	}
	return append(errs, rule.Chosen(t.Effect, path.Child("effect"),
		resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNone)...)
}

func validateTaintRule(r, _ *resourcev1.DeviceTaintRule) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if s := r.Spec.DeviceSelector; s != nil {
		at := spec.Child("deviceSelector")
		if s.Driver != nil {
			errs = append(errs, driver(*s.Driver, at.Child("driver"))...)
		}
		if s.Pool != nil {
			errs = append(errs, poolName(*s.Pool, at.Child("pool"))...)
		}
		if s.Device != nil {
			errs = append(errs, rule.Format(*s.Device, at.Child("device"), rule.Label)...)
		}
	}
	return append(errs, taint(r.Spec.Taint, spec.Child("taint"))...)
}
