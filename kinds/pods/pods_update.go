package pods

import (
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// fixed is the message for a refused change of a pod.
const fixed = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
	"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// validatePodUpdate lets only a few fields change, and these only in ways that a running pod can follow.
func validatePodUpdate(p, old *corev1.Pod) field.ErrorList {
	errs, stop := imagesOnly(p.Spec.Containers, old.Spec.Containers, specPath.Child("containers"))
	if stop {
		return errs
	}
	list, stop := imagesOnly(p.Spec.InitContainers, old.Spec.InitContainers, specPath.Child("initContainers"))
	if errs = append(errs, list...); stop {
		return errs
	}
	list, stop = deadlineShorter(p.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds, specPath.Child("activeDeadlineSeconds"))
	if errs = append(errs, list...); stop {
		return errs
	}
	errs = append(errs, tolerationsAdded(p.Spec.Tolerations, old.Spec.Tolerations, specPath.Child("tolerations"))...)
	errs = append(errs, gatesRemoved(p.Spec.SchedulingGates, old.Spec.SchedulingGates, specPath.Child("schedulingGates"))...)
	if resource.Same(p.Spec, old.Spec) {
		return errs
	}
	s := p.Spec.DeepCopy()
	undo(s, &old.Spec)
	if len(old.Spec.SchedulingGates) > 0 {
		errs = append(errs, narrowed(s, &old.Spec)...)
	}
	if !resource.Same(*s, old.Spec) {
		errs = append(errs, field.Forbidden(specPath, fixed))
	}
	return errs
}

// undo takes the allowed changes back.
func undo(s, old *corev1.PodSpec) {
	for i := range s.Containers {
		s.Containers[i].Image = old.Containers[i].Image
	}
	for i := range s.InitContainers {
		s.InitContainers[i].Image = old.InitContainers[i].Image
	}
	s.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds
	s.Tolerations, s.SchedulingGates = old.Tolerations, old.SchedulingGates
	is, was := s.TerminationGracePeriodSeconds, old.TerminationGracePeriodSeconds
	if is != nil && was != nil && *was < 0 && *is == 1 {
		s.TerminationGracePeriodSeconds = was
	}
}

// imagesOnly says what of containers a plain update may change; resources have a subresource of their own, /resize.
func imagesOnly(list, old []corev1.Container, path *field.Path) (errs field.ErrorList, stop bool) {
	if len(list) != len(old) {
		return field.ErrorList{field.Forbidden(path, "pod updates may not add or remove containers")}, true
	}
	for i := range list { // which every pod is checked for too: upstream tells of it twice
		errs = append(errs, rule.Needed(list[i].Image, path.Index(i).Child("image"))...)
		errs = append(errs, podspec.ValidateImage(list[i].Image, path.Index(i).Child("image"))...)
	}
	return errs, false
}

// deadlineShorter lets activeDeadlineSeconds be set and be shortened: a node may already have acted on what it was.
func deadlineShorter(is, was *int64, path *field.Path) (errs field.ErrorList, stop bool) {
	switch {
	case is == nil && was == nil:
	case is == nil:
		return field.ErrorList{field.Invalid(path, is, "must not update from a positive integer to nil value")}, false
	case *is < 0 || *is > math.MaxInt32:
		return field.ErrorList{field.Invalid(path, *is, fmt.Sprintf("must be between 0 and %d, inclusive", math.MaxInt32))}, true
	case was != nil && *was < *is:
		return field.ErrorList{field.Invalid(path, *is, "must be less than or equal to previous value")}, true
	}
	return nil, false
}

// tolerationsAdded: of those that are there only the time may change. The errors of one are reported twice, as upstream does.
func tolerationsAdded(list, old []corev1.Toleration, path *field.Path) field.ErrorList {
	for _, was := range old {
		if !slices.ContainsFunc(list, func(t corev1.Toleration) bool {
			t.TolerationSeconds = was.TolerationSeconds
			return resource.Same(t, was)
		}) {
			return field.ErrorList{field.Forbidden(path, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return podspec.ValidateTolerations(list, path)
}

// gatesRemoved lets gates go and none come (KEP-3521): a pod that was free to be placed may be on its way.
func gatesRemoved(list, old []corev1.PodSchedulingGate, path *field.Path) (errs field.ErrorList) {
	for i, g := range list {
		// gates with one name get one error, at the last, as upstream
		if !slices.Contains(old, g) && !slices.Contains(list[i+1:], g) {
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"), "only deletion is allowed, but found new scheduling gate '"+g.Name+"'"))
		}
	}
	return errs
}

// narrowed lets a pod that is not yet to be scheduled be restricted to fewer nodes, and takes the change back.
func narrowed(s, old *corev1.PodSpec) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(old.NodeSelector)) {
		if v, ok := s.NodeSelector[key]; !ok || v != old.NodeSelector[key] {
			errs = append(errs, field.Invalid(specPath.Child("nodeSelector"), s.NodeSelector,
				"only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
			break
		}
	}
	s.NodeSelector = old.NodeSelector
	is, was := nodeAffinity(s), nodeAffinity(old)
	if resource.Same(is, was) {
		return errs
	}
	errs = append(errs, affinityNarrowed(is, was, specPath.Child("affinity", "nodeAffinity"))...)
	switch {
	case s.Affinity == nil:
		s.Affinity = old.Affinity
	case old.Affinity == nil && s.Affinity.PodAffinity == nil && s.Affinity.PodAntiAffinity == nil:
		s.Affinity = nil
	default:
		s.Affinity.NodeAffinity = was
	}
	return errs
}

func nodeAffinity(s *corev1.PodSpec) *corev1.NodeAffinity {
	if s.Affinity == nil {
		return nil
	}
	return s.Affinity.NodeAffinity
}

// affinityNarrowed lets whoever holds a gate rule out nodes, never add some (KEP-3838): the pod's author has said where it may run.
func affinityNarrowed(is, was *corev1.NodeAffinity, path *field.Path) (errs field.ErrorList) {
	if was == nil || was.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	path = path.Child("requiredDuringSchedulingIgnoredDuringExecution")
	old := was.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if is == nil || is.RequiredDuringSchedulingIgnoredDuringExecution == nil ||
		len(is.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms) != len(old) {
		return field.ErrorList{field.Invalid(path.Child("nodeSelectorTerms"), is,
			"no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	for i, t := range is.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		empty := len(old[i].MatchExpressions)+len(old[i].MatchFields) == 0 && len(t.MatchExpressions)+len(t.MatchFields) > 0
		if empty || !longer(t.MatchExpressions, old[i].MatchExpressions) || !longer(t.MatchFields, old[i].MatchFields) {
			errs = append(errs, field.Invalid(path.Child("nodeSelectorTerms").Index(i), t, "only additions are allowed (no mutations or deletions)"))
		}
	}
	return errs
}

// longer says whether list begins with old.
func longer(list, old []corev1.NodeSelectorRequirement) bool {
	return len(list) >= len(old) && (len(old) == 0 || resource.Same(list[:len(old)], old))
}
