// Package template checks the pod templates inside workloads: the rules of a pod spec, and those that
// follow from there being a controller that replaces pods.
package template

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// Validate checks a template; old is the stored one, nil on create.
//
// Unlike Kubernetes, a template that did not change is not checked again: scaling a workload costs nothing for
// its pods, and rules that became stricter since do not get in the way.
func Validate(t, old *v1.PodTemplateSpec, path *field.Path) field.ErrorList {
	if old != nil && equality.Semantic.DeepEqual(t, old) {
		return nil
	}
	return podspec.ValidateTemplate(t, path)
}

// AlwaysRestart refuses templates of pods that may end: their controllers would replace them for ever.
func AlwaysRestart(t *v1.PodTemplateSpec, path *field.Path) (errs field.ErrorList) {
	spec := path.Child("spec")
	if t.Spec.RestartPolicy != v1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(spec.Child("restartPolicy"), t.Spec.RestartPolicy,
			[]v1.RestartPolicy{v1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(spec.Child("activeDeadlineSeconds"), "may not be set here"))
	}
	return errs
}
