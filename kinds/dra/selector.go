package dra

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// selectors checks that expressions compile, are true or false of a device, and come to an end.
func selectors(list []resourcev1.DeviceSelector, path *field.Path) field.ErrorList {
	return each(list, resourcev1.DeviceSelectorsMaxSize, path, func(s resourcev1.DeviceSelector, at *field.Path) field.ErrorList {
		if s.CEL == nil {
			return field.ErrorList{field.Required(at.Child("cel"), "")}
		}
		return compiles(s.CEL.Expression, at.Child("cel", "expression"))
	})
}

func validateClass(on *features.Set, c, old *resourcev1.DeviceClass) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if old == nil || !resource.Same(c.Spec.Selectors, old.Spec.Selectors) {
		errs = append(errs, selectors(c.Spec.Selectors, spec.Child("selectors"))...)
	}
	errs = append(errs, each(c.Spec.Config, resourcev1.DeviceConfigMaxSize, spec.Child("config"),
		func(k resourcev1.DeviceClassConfiguration, at *field.Path) field.ErrorList {
			return configuration(k.DeviceConfiguration, at)
		})...)
	at, n := spec.Child("extendedResourceName"), c.Spec.ExtendedResourceName
	switch {
	case n == nil || old != nil && on.AtLeast(37) && resource.Same(n, old.Spec.ExtendedResourceName):
	case on.AtLeast(37): // one error for each mistake
		errs = append(errs, validate.ExtendedResourceName(context.Background(), operation.Operation{}, at, n, nil)...)
	case !podspec.IsExtendedResource(corev1.ResourceName(*n)):
		errs = append(errs, field.Invalid(at, *n, "must be a valid extended resource name"))
	}
	return errs
}
