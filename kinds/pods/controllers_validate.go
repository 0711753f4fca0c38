package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
)

// validateController differs from a ReplicaSet in that the selector is a plain map, and may be changed.
func validateController(on *features.Set, c, old *corev1.ReplicationController) field.ErrorList {
	s := &c.Spec
	errs := rule.AtLeast(s.MinReadySeconds, 0, specPath.Child("minReadySeconds"))
	if len(s.Selector) == 0 {
		errs = append(errs, field.Required(specPath.Child("selector"), ""))
	}
	if s.Replicas == nil {
		errs = append(errs, field.Required(specPath.Child("replicas"), ""))
	}
	errs = append(errs, rule.AtLeastPtr(s.Replicas, 0, specPath.Child("replicas"))...)
	t, at := s.Template, specPath.Child("template")
	if t == nil {
		return append(errs, field.Required(at, ""))
	}
	if len(s.Selector) > 0 && !labels.SelectorFromSet(s.Selector).Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`"))
	}
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = old.Spec.Template
	}
	errs = append(errs, template.Validate(on, t, was, at)...)
	return append(errs, template.AlwaysRestart(t, "ReplicationController", at)...)
}

func validateControllerStatus(c, _ *corev1.ReplicationController) (errs field.ErrorList) {
	s := &c.Status
	for _, f := range []struct {
		name string
		n    int32
	}{{"fullyLabeledReplicas", s.FullyLabeledReplicas}, {"readyReplicas", s.ReadyReplicas}, {"availableReplicas", s.AvailableReplicas}} {
		at := statusPath.Child(f.name)
		errs = append(errs, rule.AtLeast(f.n, 0, at)...)
		if f.n > s.Replicas {
			errs = append(errs, field.Invalid(at, f.n, "cannot be greater than status.replicas"))
		}
	}
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(statusPath.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than readyReplicas"))
	}
	errs = append(errs, rule.AtLeast(s.Replicas, 0, statusPath.Child("replicas"))...)
	return append(errs, rule.AtLeast(s.ObservedGeneration, 0, statusPath.Child("observedGeneration"))...)
}

func validatePodTemplate(on *features.Set, t, _ *corev1.PodTemplate) field.ErrorList {
	return template.Validate(on, &t.Template, nil, field.NewPath("template"))
}
