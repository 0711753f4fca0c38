package dra

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// reach checks which nodes reach a device: said of each device if the slice says so, else of none.
func reach(d v1.Device, each bool, path *field.Path) (errs field.ErrorList) {
	ways := map[string]bool{"nodeName": d.NodeName != nil, "nodeSelector": d.NodeSelector != nil, "allNodes": d.AllNodes != nil}
	n := 0
	for name, set := range ways {
		if !set {
			continue
		}
		if n++; !each {
			errs = append(errs, field.Invalid(path.Child(name), nil, "only allowed when `perDeviceNodeSelection` is true in the slice"))
		}
	}
	says := "exactly one of `nodeName`, `nodeSelector` or `allNodes` is required when `perDeviceNodeSelection` is true in the slice"
	switch {
	case each && n == 0:
		errs = append(errs, field.Required(path, says))
	case each && n > 1:
		errs = append(errs, field.Invalid(path, nil, says))
	}
	if each && d.NodeName != nil {
		errs = append(errs, rule.NeededFormat(*d.NodeName, path.Child("nodeName"), rule.Subdomain)...)
	}
	return append(errs, oneTerm(d.NodeSelector, path.Child("nodeSelector"))...)
}

// oneTerm asks for selectors that the scheduler can use as they are.
func oneTerm(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	if s == nil || len(s.NodeSelectorTerms) == 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("nodeSelectorTerms"), len(s.NodeSelectorTerms), "must have exactly one node selector term")}
}

// counters checks what a device takes of the slice's shared counters.
func counters(list []v1.DeviceCounterConsumption, path *field.Path) (errs field.ErrorList) {
	errs = few(len(list), v1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, path)
	for i, c := range list {
		at := path.Index(i)
		errs = append(errs, rule.NeededFormat(c.CounterSet, at.Child("counterSet"), rule.Label)...)
		if slices.ContainsFunc(list[:i], func(b v1.DeviceCounterConsumption) bool { return b.CounterSet == c.CounterSet }) {
			errs = append(errs, field.Duplicate(at, c.CounterSet))
		}
		errs = append(errs, counterNames(c.Counters, at.Child("counters"))...)
	}
	return errs
}

func counterNames(m map[string]v1.Counter, path *field.Path) (errs field.ErrorList) {
	if len(m) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	errs = few(len(m), v1.ResourceSliceMaxCountersPerCounterSet, path)
	for name := range m {
		errs = append(errs, rule.Format(name, path.Key(name), rule.Label)...)
	}
	return errs
}

// bindingConditions checks the conditions that pods wait for before they are bound.
func bindingConditions(good, bad []string, path *field.Path) (errs field.ErrorList) {
	g, b := path.Child("bindingConditions"), path.Child("bindingFailureConditions")
	errs = append(few(len(good), v1.BindingConditionsMaxSize, g), few(len(bad), v1.BindingFailureConditionsMaxSize, b)...)
	for _, l := range []struct {
		list []string
		at   *field.Path
	}{{good, g}, {bad, b}} {
		for i, c := range l.list {
			errs = append(errs, rule.Format(c, l.at.Index(i), validation.IsQualifiedName)...)
		}
		errs = append(errs, rule.Duplicates(l.list, l.at.Index)...)
	}
	if len(good) == 0 && len(bad) > 0 {
		errs = append(errs, field.Invalid(g, good, "bindingConditions are required to use bindingFailureConditions"))
	}
	if len(good) > 0 && len(bad) == 0 {
		errs = append(errs, field.Invalid(b, bad, "bindingFailureConditions are required to use bindingConditions"))
	}
	for i, c := range bad {
		if slices.Contains(good, c) {
			errs = append(errs, field.Invalid(b.Index(i), c, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	return errs
}

// policy checks how a request for capacity is rounded: to values, or into a range, with a default among them.
func policy(c v1.DeviceCapacity, path *field.Path) (errs field.ErrorList) {
	p := c.RequestPolicy
	if p == nil {
		return nil
	}
	switch {
	case p.Default == nil:
		if len(p.ValidValues) > 0 || p.ValidRange != nil {
			return field.ErrorList{field.Required(path.Child("default"), "must be set when validValues or validRange is")}
		}
		return nil
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		errs = append(errs, field.Forbidden(path, "exactly one policy can be specified, cannot specify `validValues` and `validRange` at the same time"))
	}
	if p.Default.Cmp(c.Value) > 0 {
		errs = append(errs, field.Invalid(path.Child("default"), p.Default.String(), "is larger than capacity value "+c.Value.String()))
	}
	found := len(p.ValidValues) == 0
	for i, v := range p.ValidValues {
		found = found || v.Cmp(*p.Default) == 0
		if v.Cmp(c.Value) > 0 {
			errs = append(errs, field.Invalid(path.Child("validValues").Index(i), v.String(), "option is larger than capacity value "+c.Value.String()))
		}
	}
	if !found {
		errs = append(errs, field.Invalid(path.Child("default"), p.Default.String(), "default value is not valid according to the requestPolicy"))
	}
	if r := p.ValidRange; r != nil {
		if r.Min == nil {
			errs = append(errs, field.Required(path.Child("validRange", "min"), ""))
		} else if p.Default.Cmp(*r.Min) < 0 {
			errs = append(errs, field.Invalid(path.Child("default"), p.Default.String(), "default is less than min "+r.Min.String()))
		}
		if r.Max != nil && p.Default.Cmp(*r.Max) > 0 {
			errs = append(errs, field.Invalid(path.Child("default"), p.Default.String(), "default is more than max "+r.Max.String()))
		}
	}
	return errs
}
