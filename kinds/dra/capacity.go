package dra

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxValidValues is the number of values of a capacity that may be asked for.
const maxValidValues = 10

// policy checks how a request for capacity is rounded: to values, or into a range, with a default among them. Only
// devices that are allocated several times have one.
func policy(c resourcev1.DeviceCapacity, shared bool, path *field.Path) field.ErrorList {
	p := c.RequestPolicy
	switch {
	case p == nil:
		return nil
	case !shared:
		return field.ErrorList{field.Forbidden(path, "allowMultipleAllocations must be true")}
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		return field.ErrorList{field.Forbidden(path,
			`exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case len(p.ValidValues) == 0 && p.ValidRange == nil:
		return nil
	case p.Default == nil:
		return field.ErrorList{field.Required(path.Child("default"), "required when validValues or validRange is defined")}
	case p.ValidRange != nil:
		return valueRange(*p.Default, c.Value, p.ValidRange, path.Child("validRange"))
	}
	return values(*p.Default, c.Value, p.ValidValues, path.Child("validValues"))
}

func values(preset, capacity resource.Quantity, list []resource.Quantity, path *field.Path) (errs field.ErrorList) {
	for i := 1; i < len(list); i++ {
		if list[i-1].Cmp(list[i]) > 0 {
			errs = append(errs, field.Invalid(path.Index(i), list[i].String(), "values must be sorted in ascending order"))
		}
	}
	found := false
	errs = append(errs, unlike(list, maxValidValues, path, func(v resource.Quantity) int64 { return v.Value() },
		func(v resource.Quantity, at *field.Path) (errs field.ErrorList) {
			found = found || v.Cmp(preset) == 0
			if v.Cmp(capacity) > 0 {
				errs = append(errs, field.Invalid(at, v.String(), "option is larger than capacity value: "+capacity.String()))
			}
			return errs
		})...)
	if !found {
		errs = append(errs, field.Invalid(path, preset.String(), "default value is not valid according to the requestPolicy"))
	}
	return errs
}

func valueRange(preset, capacity resource.Quantity, r *resourcev1.CapacityRequestPolicyRange, path *field.Path) (errs field.ErrorList) {
	if r.Min == nil {
		return field.ErrorList{field.Required(path.Child("min"), "required when validRange is defined")}
	}
	larger := func(a, b resource.Quantity, name, says string) {
		if a.Cmp(b) > 0 {
			errs = append(errs, field.Invalid(path.Child(name), a.String(), fmt.Sprintf(says, b.String())))
		}
	}
	larger(*r.Min, capacity, "min", "min is larger than capacity value: %s")
	larger(*r.Min, preset, "min", "default is less than min: %s")
	if r.Max != nil {
		larger(*r.Min, *r.Max, "max", "min is larger than max: %s")
		larger(*r.Max, capacity, "max", "max is larger than capacity value: %s")
		larger(preset, *r.Max, "max", "default is more than max: %s")
	}
	if r.Step == nil || r.Step.Value() == 0 {
		return errs
	}
	one := r.Min.DeepCopy()
	one.Add(*r.Step)
	larger(one, capacity, "step", "one step is larger than capacity value: %s")
	reached := func(v resource.Quantity) {
		if (v.Value()-r.Min.Value())%r.Step.Value() != 0 {
			errs = append(errs, field.Invalid(path.Child("step"), v.String(),
				fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", r.Step, r.Min)))
		}
	}
	reached(preset)
	if r.Max != nil {
		reached(*r.Max)
	}
	return errs
}
