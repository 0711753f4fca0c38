package podspec

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	deletionCost   = "controller.kubernetes.io/pod-deletion-cost"
	oldTolerations = "scheduler.alpha.kubernetes.io/tolerations"
)

// ValidateAnnotations checks the annotations that have a meaning for pods.
func ValidateAnnotations(a map[string]string, s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	if len(a) == 0 {
		return nil
	}
	if v, ok := a[corev1.MirrorPodAnnotationKey]; ok && s.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(corev1.MirrorPodAnnotationKey), v, "must set spec.nodeName if mirror pod annotation is set"))
	}
	if v := a[oldTolerations]; v != "" {
		var list []corev1.Toleration
		if err := json.Unmarshal([]byte(v), &list); err != nil {
			errs = append(errs, field.Invalid(path, oldTolerations, err.Error()))
		} else {
			errs = append(errs, ValidateTolerations(list, path.Child(oldTolerations))...)
		}
	}
	if v, ok := a[deletionCost]; ok && !isCost(v) {
		errs = append(errs, field.Invalid(path.Key(deletionCost), v, "must be a 32bit integer"))
	}
	errs = append(errs, checkSeccompAnnotations(a, path)...)
	return append(errs, checkConfinement(a, s, path)...)
}

// ValidateAnnotationChange refuses that annotations change which say how a pod runs: apart from what a pod says itself,
// these are fixed from the start. It also checks those that there are now, of which upstream tells once more with each
// change of a pod.
func ValidateAnnotationChange(a, old map[string]string, s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(old)) {
		if v, kept := a[key]; kept && v == old[key] {
			continue
		}
		if strings.HasPrefix(key, apparmorOne) {
			errs = append(errs, field.Forbidden(path.Key(key), "may not remove or update AppArmor annotations"))
		}
		if key == corev1.MirrorPodAnnotationKey {
			errs = append(errs, field.Forbidden(path.Key(key), "may not remove or update mirror pod annotation"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if _, had := old[key]; had {
			continue
		}
		if strings.HasPrefix(key, apparmorOne) {
			errs = append(errs, field.Forbidden(path.Key(key), "may not add AppArmor annotations"))
		}
		if key == corev1.MirrorPodAnnotationKey {
			errs = append(errs, field.Forbidden(path.Key(key), "may not add mirror pod annotation"))
		}
	}
	return append(errs, ValidateAnnotations(a, s, path)...)
}

// AnnotationsAgree checks of annotations that have become fields that they say the same as these.
func AnnotationsAgree(a map[string]string, s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	if len(a) == 0 {
		return nil
	}
	if v, ok := a[seccompPod]; ok && s.SecurityContext != nil {
		errs = append(errs, seccompAgrees(v, s.SecurityContext.SeccompProfile, path.Child("securityContext", "seccompProfile"))...)
	}
	eachContainer(s, path, func(c *corev1.Container, spot spot) {
		if v, ok := a[seccompOne+c.Name]; ok && c.SecurityContext != nil {
			errs = append(errs, seccompAgrees(v, c.SecurityContext.SeccompProfile, spot.path().Child("securityContext", "seccompProfile"))...)
		}
		windows := s.OS != nil && s.OS.Name == corev1.Windows
		if v, ok := a[apparmorOne+c.Name]; ok && !windows {
			errs = append(errs, confinementAgrees(v, profileOf(c, s), spot.path().Child("securityContext", "appArmorProfile"))...)
		}
	})
	return errs
}

// checkSeccompAnnotations checks the annotations of old for profiles of the calls that a container may make.
func checkSeccompAnnotations(a map[string]string, path *field.Path) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if key != seccompPod && !strings.HasPrefix(key, seccompOne) {
			continue
		}
		at := path.Child(key)
		switch v := a[key]; {
		case v == corev1.SeccompProfileRuntimeDefault, v == corev1.DeprecatedSeccompProfileDockerDefault,
			v == corev1.SeccompProfileNameUnconfined:
		case strings.HasPrefix(v, corev1.SeccompLocalhostProfileNamePrefix):
			errs = append(errs, checkInnerPath(strings.TrimPrefix(v, corev1.SeccompLocalhostProfileNamePrefix), at)...)
		default:
			errs = append(errs, field.Invalid(at, v, "must be a valid seccomp profile"))
		}
	}
	return errs
}

func seccompAgrees(v string, p *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	local, isLocal := strings.CutPrefix(v, corev1.SeccompLocalhostProfileNamePrefix)
	agrees := true
	switch p.Type {
	case corev1.SeccompProfileTypeUnconfined:
		agrees = v == corev1.SeccompProfileNameUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		agrees = v == corev1.SeccompProfileRuntimeDefault || v == corev1.DeprecatedSeccompProfileDockerDefault
	case corev1.SeccompProfileTypeLocalhost:
		if agrees = isLocal; isLocal && (p.LocalhostProfile == nil || *p.LocalhostProfile != local) {
			return field.ErrorList{field.Forbidden(path.Child("localhostProfile"), "seccomp profile in annotation and field must match")}
		}
	}
	if agrees {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("type"), "seccomp type in annotation and field must match")}
}

// isCost says whether v is a number without a leading plus sign or zeros.
func isCost(v string) bool {
	n, err := strconv.ParseInt(v, 10, 64)
	plain := v == "0" || v == "" || !strings.HasPrefix(v, "0") && !strings.HasPrefix(v, "+")
	return err == nil && plain && n >= math.MinInt32 && n <= math.MaxInt32
}
