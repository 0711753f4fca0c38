// Package template checks the pod templates inside workloads: the rules of a pod spec, and those that
// follow from there being a controller that replaces pods.
package template

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// Validate checks a template; old is the stored one, nil on create.
//
// Unlike Kubernetes, a template that did not change is not checked again: scaling a workload costs nothing for
// its pods, and rules that became stricter since do not get in the way.
func Validate(on *features.Set, t, old *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	if old != nil && resource.Same(t, old) {
		return nil
	}
	return podspec.ValidateTemplate(on, t, old, path)
}

// AlwaysRestart refuses templates of pods that may end: their controllers, of the kind, would replace them for ever.
func AlwaysRestart(t *corev1.PodTemplateSpec, kind string, path *field.Path) (errs field.ErrorList) {
	spec := path.Child("spec")
	if t.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(spec.Child("restartPolicy"), t.Spec.RestartPolicy,
			[]corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(spec.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in "+kind+" is not Supported"))
	}
	return errs
}

// Warnings says what is allowed but will surprise: in the template, and, unless it is empty, in the name that the
// pods of a new workload will have as part of theirs.
func Warnings(name string, t *corev1.PodTemplateSpec, path *field.Path) (list []string) {
	if name != "" {
		if says := validation.IsDNS1123Label(name); len(says) > 0 {
			list = append(list, "metadata.name: this is used in Pod names and hostnames, which can result in surprising "+
				"behavior; a DNS label is recommended: ["+strings.Join(says, " ")+"]")
		}
	}
	return append(list, podspec.TemplateWarnings(t, nil, path)...)
}
