package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// validatePod keeps ephemeral containers out of new pods, and gates away from pods that have a node already.
func validatePod(on *features.Set, p, old *corev1.Pod) field.ErrorList {
	errs := podspec.ValidatePod(on, p, old)
	if old != nil {
		errs = append(errs, podspec.ValidateAnnotationChange(p.Annotations, old.Annotations, &p.Spec, annotationsPath)...)
		return append(errs, validatePodUpdate(p, old)...)
	}
	errs = append(errs, podspec.AnnotationsAgree(p.Annotations, &p.Spec, specPath)...)
	if len(p.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if len(p.Spec.SchedulingGates) > 0 && p.Spec.NodeName != "" {
		errs = append(errs, field.Forbidden(specPath.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

// validateEphemeralContainers lets some be added and none go or change (KEP-277): what was typed into one should be told truly
// afterwards. Nobody but the node's file decides on a static pod.
func validateEphemeralContainers(on *features.Set, p, old *corev1.Pod) field.ErrorList {
	errs := podspec.ValidatePod(on, p, old)
	errs = append(errs, podspec.ValidateAnnotationChange(p.Annotations, old.Annotations, &p.Spec, annotationsPath)...)
	path := specPath.Child("ephemeralContainers")
	if _, static := old.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	now := map[string]*corev1.EphemeralContainer{}
	for i := range p.Spec.EphemeralContainers {
		now[p.Spec.EphemeralContainers[i].Name] = &p.Spec.EphemeralContainers[i]
	}
	for i := range old.Spec.EphemeralContainers {
		was := &old.Spec.EphemeralContainers[i]
		switch is := now[was.Name]; {
		case is == nil:
			errs = append(errs, field.Forbidden(path, "existing ephemeral containers \""+was.Name+"\" may not be removed"))
		case !resource.Same(is, was):
			errs = append(errs, field.Forbidden(path, "existing ephemeral containers \""+was.Name+"\" may not be changed"))
		}
	}
	return errs
}
