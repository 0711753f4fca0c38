package template

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// Gated are the rules of a kind with a pod template that depend on what is on in the cluster: fields that are off are
// dropped, and validate is the kind's.
func Gated[T resource.Object](of func(T) *corev1.PodTemplateSpec,
	validate func(on *features.Set, obj, old T) field.ErrorList) resource.Gated[T] {
	return resource.Gated[T]{Drop: func(on *features.Set, obj, old T) { Drop(on, obj, old, of) }, Validate: validate}
}

// Drop does the work of Gated, for kinds that drop more; old may be nil, and either may be without a template.
func Drop[T resource.Object](on *features.Set, obj, old T, of func(T) *corev1.PodTemplateSpec) {
	var none T
	var before *corev1.PodSpec
	if any(old) != any(none) {
		if t := of(old); t != nil {
			before = &t.Spec
		}
	}
	if t := of(obj); t != nil {
		podspec.DropDisabled(on, &t.Spec, before)
		podspec.DropAnnotations(&t.Annotations)
	}
}
