package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// validateLevelOf judges a level in a version. Since 1.37 upstream declares which part goes with which type: that says less in words,
// and is said of types that there are not, too.
func validateLevelOf(on *features.Set, l, old *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateLevel(l, spec)
	if !on.AtLeast(37) {
		return errs
	}
	for _, e := range errs {
		if e.Field != "metadata.annotations" && (e.Type == field.ErrorTypeForbidden || e.Type == field.ErrorTypeRequired) {
			e.Detail = ""
		}
	}
	if old != nil && resource.Same(l.Spec, old.Spec) {
		return errs
	}
	return append(errs, strays(&l.Spec, spec)...)
}

// strays are the parts that go with no type, where the rules of a type have not been asked.
func strays(s *flowcontrolv1.PriorityLevelConfigurationSpec, spec *field.Path) (errs field.ErrorList) {
	asked := s.Type == flowcontrolv1.PriorityLevelEnablementLimited
	if !asked && s.Type != flowcontrolv1.PriorityLevelEnablementExempt {
		errs = append(errs, forbid(s.Exempt, spec.Child("exempt"))...)
		errs = append(errs, forbid(s.Limited, spec.Child("limited"))...)
	}
	if s.Limited == nil {
		return errs
	}
	r, at := s.Limited.LimitResponse, spec.Child("limited", "limitResponse")
	switch r.Type {
	case flowcontrolv1.LimitResponseTypeQueue:
		if !asked && r.Queuing == nil {
			errs = append(errs, field.Required(at.Child("queuing"), ""))
		}
		return errs
	case flowcontrolv1.LimitResponseTypeReject:
		if asked {
			return errs
		}
	case "":
		if !asked {
			errs = append(errs, field.Required(at.Child("type"), ""))
		}
	}
	return append(errs, forbid(r.Queuing, at.Child("queuing"))...)
}

func forbid[T any](part *T, path *field.Path) field.ErrorList {
	if part == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "")}
}
