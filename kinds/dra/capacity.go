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
	case p.Default == nil && p.ValidRange != nil:
		return field.ErrorList{field.Required(path.Child("default"), "required when validRange is defined")}
	case p.Default == nil:
		return field.ErrorList{field.Required(path.Child("default"), "required when validValues is defined")}
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
	wrong := func(is bool, name string, v resource.Quantity, says string, than ...any) {
		if is {
			errs = append(errs, field.Invalid(path.Child(name), v.String(), fmt.Sprintf(says, than...)))
		}
	}
	wrong(r.Min.Cmp(capacity) > 0, "min", *r.Min, "min is larger than capacity value: %s", &capacity)
	wrong(preset.Cmp(*r.Min) < 0, "default", preset, "default is less than min: %s", r.Min)
	if m := r.Max; m != nil {
		wrong(r.Min.Cmp(*m) > 0, "max", *r.Min, "min is larger than max: %s", m)
		wrong(m.Cmp(capacity) > 0, "max", *m, "max is larger than capacity value: %s", &capacity)
		wrong(preset.Cmp(*m) > 0, "default", preset, "default is more than max: %s", m)
	}
	if r.Step != nil {
		errs = append(errs, steps(preset, capacity, r, path)...)
	}
	return errs
}

// steps checks that what may be asked for lies whole steps above the least, of which one fits.
func steps(preset, capacity resource.Quantity, r *resourcev1.CapacityRequestPolicyRange, path *field.Path) (errs field.ErrorList) {
	at := path.Child("step")
	if r.Step.Sign() <= 0 {
		return field.ErrorList{field.Invalid(at, r.Step.String(), "must be greater than zero")}
	}
	one := r.Min.DeepCopy()
	if one.Add(*r.Step); one.Cmp(capacity) > 0 {
		errs = append(errs, field.Invalid(at, r.Step.String(), fmt.Sprintf("one step %s is larger than capacity value: %s", &one, &capacity)))
	}
	negative := false
	for _, b := range []struct {
		name string
		of   *resource.Quantity
	}{{"default", &preset}, {"min", r.Min}, {"max", r.Max}} {
		if b.of != nil && b.of.Sign() < 0 {
			negative = true
			errs = append(errs, field.Invalid(path.Child(b.name), b.of.String(), "must be greater than or equal to 0"))
		}
	}
	if negative {
		return errs
	}
	for _, v := range []*resource.Quantity{&preset, r.Max} {
		if v != nil && (v.Value()-r.Min.Value())%r.Step.Value() != 0 {
			errs = append(errs, field.Invalid(at, v.String(),
				fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", r.Step, r.Min)))
		}
	}
	return errs
}
