package dra

import (
	"slices"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

func validateSlice(s, old *v1.ResourceSlice) (errs field.ErrorList) {
	d, spec := &s.Spec, field.NewPath("spec")
	if old != nil {
		errs = append(errs, rule.Frozen(d.Driver, old.Spec.Driver, spec.Child("driver"))...)
		errs = append(errs, rule.Frozen(d.Pool.Name, old.Spec.Pool.Name, spec.Child("pool", "name"))...)
		errs = append(errs, rule.Frozen(d.NodeName, old.Spec.NodeName, spec.Child("nodeName"))...)
	}
	errs = append(errs, driver(d.Driver, spec.Child("driver"))...)
	errs = append(errs, pool(d.Pool, spec.Child("pool"))...)
	errs = append(errs, where([]bool{d.NodeName != nil && *d.NodeName != "", d.NodeSelector != nil, is(d.AllNodes), is(d.PerDeviceNodeSelection)}, spec,
		"exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required")...)
	errs = append(errs, someNode(d.NodeName, spec.Child("nodeName"))...)
	errs = append(errs, oneTerm(d.NodeSelector, spec.Child("nodeSelector"))...)
	errs = append(errs, unsetOrTrue(d.AllNodes, spec.Child("allNodes"))...)
	errs = append(errs, unsetOrTrue(d.PerDeviceNodeSelection, spec.Child("perDeviceNodeSelection"))...)
	if d.SharedCounters != nil && d.Devices != nil {
		errs = append(errs, field.Invalid(spec, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	most := v1.ResourceSliceMaxDevices
	if slices.ContainsFunc(d.Devices, func(d v1.Device) bool { return len(d.Taints)+len(d.ConsumesCounters) > 0 }) {
		most = v1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	if tooMany := few(len(d.Devices), most, spec.Child("devices")); len(tooMany) > 0 {
		return append(errs, tooMany...)
	}
	seen := map[string]bool{}
	for i, dev := range d.Devices {
		at := spec.Child("devices").Index(i)
		if seen[dev.Name] {
			errs = append(errs, field.Duplicate(at, dev.Name))
		}
		seen[dev.Name] = true
		errs = append(errs, device(dev, before(old, dev.Name), at)...)
		errs = append(errs, reach(dev, is(d.PerDeviceNodeSelection), at)...)
	}
	errs = append(errs, few(len(d.SharedCounters), v1.ResourceSliceMaxCounterSets, spec.Child("sharedCounters"))...)
	for i, c := range d.SharedCounters {
		at := spec.Child("sharedCounters").Index(i)
		errs = append(errs, rule.NeededFormat(c.Name, at.Child("name"), rule.Label)...)
		errs = append(errs, counterNames(c.Counters, at.Child("counters"))...)
		if slices.ContainsFunc(d.SharedCounters[:i], func(b v1.CounterSet) bool { return b.Name == c.Name }) {
			errs = append(errs, field.Duplicate(at, c.Name))
		}
	}
	return errs
}

func is(b *bool) bool { return b != nil && *b }

// before returns the stored device of that name, or nil.
func before(old *v1.ResourceSlice, name string) *v1.Device {
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

// where asks for exactly one way of saying which nodes reach the devices.
func where(ways []bool, path *field.Path, says string) field.ErrorList {
	n := 0
	for _, set := range ways {
		if set {
			n++
		}
	}
	switch n {
	case 0:
		return field.ErrorList{field.Required(path, says)}
	case 1:
		return nil
	}
	return field.ErrorList{field.Invalid(path, nil, says+", but multiple fields are set")}
}

func pool(p v1.ResourcePool, path *field.Path) (errs field.ErrorList) {
	errs = poolName(p.Name, path.Child("name"))
	if p.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(path.Child("resourceSliceCount"), p.ResourceSliceCount, "must be greater than zero"))
	}
	if p.Generation < 0 {
		errs = append(errs, field.Invalid(path.Child("generation"), p.Generation, "must be greater than or equal to zero"))
	}
	return errs
}

func device(d v1.Device, old *v1.Device, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, rule.Format(d.Name, path.Child("name"), rule.Label)...)
	if n := len(d.Attributes) + len(d.Capacity); n > v1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		errs = append(errs, field.Invalid(path, n, "the total number of attributes and capacities must not exceed 32"))
	}
	for name, a := range d.Attributes {
		at := path.Child("attributes").Key(string(name))
		errs = append(errs, qualified(string(name), at)...)
		errs = append(errs, attribute(a, at)...)
	}
	for name, c := range d.Capacity {
		at := path.Child("capacity").Key(string(name))
		errs = append(errs, qualified(string(name), at)...)
		errs = append(errs, policy(c, is(d.AllowMultipleAllocations), at.Child("requestPolicy"))...)
	}
	errs = append(errs, counters(d.ConsumesCounters, path.Child("consumesCounters"))...)
	errs = append(errs, bindingConditions(d.BindingConditions, d.BindingFailureConditions, path)...)
	if old != nil && rule.Same(d.Taints, old.Taints) {
		return errs
	}
	errs = append(errs, few(len(d.Taints), v1.DeviceTaintsMaxLength, path.Child("taints"))...)
	for i, t := range d.Taints {
		errs = append(errs, taint(t, path.Child("taints").Index(i))...)
	}
	return errs
}

func attribute(a v1.DeviceAttribute, path *field.Path) (errs field.ErrorList) {
	n := 0
	for _, set := range []bool{a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil,
		a.IntValues != nil, a.BoolValues != nil, a.StringValues != nil, a.VersionValues != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		errs = append(errs, field.Invalid(path, n, "exactly one value must be specified"))
	}
	if s := a.StringValue; s != nil && len(*s) > v1.DeviceAttributeMaxValueLength {
		errs = append(errs, field.TooLong(path.Child("string"), *s, v1.DeviceAttributeMaxValueLength))
	}
	if s := a.VersionValue; s != nil {
		if len(*s) > v1.DeviceAttributeMaxValueLength {
			errs = append(errs, field.TooLong(path.Child("version"), *s, v1.DeviceAttributeMaxValueLength))
		}
		if !semver.MatchString(*s) {
			errs = append(errs, field.Invalid(path.Child("version"), *s, "must be a string compatible with semver.org spec 2.0.0"))
		}
	}
	return errs
}

func taint(t v1.DeviceTaint, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, rule.Format(t.Key, path.Child("key"), validation.IsQualifiedName)...)
	if t.Value != "" {
		errs = append(errs, rule.Format(t.Value, path.Child("value"), validation.IsValidLabelValue)...)
	}
	return append(errs, rule.Chosen(t.Effect, path.Child("effect"),
		v1.DeviceTaintEffectNoSchedule, v1.DeviceTaintEffectNoExecute, v1.DeviceTaintEffectNone)...)
}

func validateTaintRule(r, _ *v1.DeviceTaintRule) (errs field.ErrorList) {
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
