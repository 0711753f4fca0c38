package dra

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// reach checks which nodes reach a device: said of each device if the slice says so, else of none.
func reach(d resourcev1.Device, each bool, path *field.Path) (errs field.ErrorList) {
	if !each {
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			errs = append(errs, field.Invalid(path, nil,
				"`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"))
		}
		return errs
	}
	if d.NodeSelector != nil {
		errs = append(errs, podspec.ValidateNodeSelector(d.NodeSelector, path.Child("nodeSelector"))...)
	}
	errs = append(errs, someNode(d.NodeName, "must not be empty", path.Child("nodeName"))...)
	errs = append(errs, unsetOrTrue(d.AllNodes, path.Child("allNodes"))...)
	ways := []bool{d.NodeName != nil && *d.NodeName != "", d.NodeSelector != nil, is(d.AllNodes)}
	return append(errs, where(ways, path,
		"exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the "+
			"ResourceSlice spec", "")...)
}

func someNode(name *string, says string, path *field.Path) field.ErrorList {
	switch {
	case name == nil:
		return nil
	case *name == "":
		return field.ErrorList{field.Invalid(path, *name, says)}
	}
	return rule.Format(*name, path, rule.Subdomain)
}

func unsetOrTrue(b *bool, path *field.Path) field.ErrorList {
	if b == nil || *b {
		return nil
	}
	return field.ErrorList{field.Invalid(path, false, "must be either unset or set to true")}
}

// oneTerm asks for selectors that the scheduler can use as they are.
func oneTerm(s *corev1.NodeSelector, path *field.Path) (errs field.ErrorList) {
	if s == nil {
		return nil
	}
	errs = podspec.ValidateNodeSelector(s, path)
	if len(s.NodeSelectorTerms) != 1 {
		errs = append(errs, field.Invalid(path.Child("nodeSelectorTerms"), rule.Internal(s.NodeSelectorTerms),
			"must have exactly one node selector term"))
	}
	return errs
}

// counters checks what a device takes of the slice's shared counters.
func counters(list []resourcev1.DeviceCounterConsumption, path *field.Path) field.ErrorList {
	return unlike(list, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, path,
		func(c resourcev1.DeviceCounterConsumption) string { return c.CounterSet },
		func(c resourcev1.DeviceCounterConsumption, at *field.Path) field.ErrorList {
			errs := rule.NeededFormat(c.CounterSet, at.Child("counterSet"), rule.Label)
			return append(errs, counterNames(c.Counters, at.Child("counters"))...)
		})
}

func counterNames(m map[string]resourcev1.Counter, path *field.Path) field.ErrorList {
	if len(m) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	label := func(name string, at *field.Path) field.ErrorList { return rule.Format(name, at, rule.Label) }
	return entries(m, resourcev1.ResourceSliceMaxCountersPerCounterSet, path, label, nil)
}

// bindingConditions checks the conditions that pods wait for before they are bound.
func bindingConditions(good, bad []string, path *field.Path) (errs field.ErrorList) {
	g, b := path.Child("bindingConditions"), path.Child("bindingFailureConditions")
	name := func(c string, at *field.Path) field.ErrorList { return rule.Format(c, at, validation.IsQualifiedName) }
	errs = append(each(good, resourcev1.BindingConditionsMaxSize, g, name), each(bad, resourcev1.BindingFailureConditionsMaxSize, b, name)...)
	errs = append(append(errs, rule.Duplicates(good, g.Index)...), rule.Duplicates(bad, b.Index)...)
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
