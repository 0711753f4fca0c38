package podspec

import (
	"math"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// validateAnnotations checks the annotations that have a meaning for pods.
func validateAnnotations(a map[string]string, s *v1.PodSpec, path *field.Path) (errs field.ErrorList) {
	if v, ok := a[v1.MirrorPodAnnotationKey]; ok && s.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(v1.MirrorPodAnnotationKey), v, "must set spec.nodeName if mirror pod annotation is set"))
	}
	if v, ok := a[deletionCost]; ok && !isCost(v) {
		errs = append(errs, field.Invalid(path.Key(deletionCost), v, "must be a 32bit integer"))
	}
	return append(errs, checkConfinement(a, s, path)...)
}

// isCost says whether v is a number without a leading plus sign or zeros.
func isCost(v string) bool {
	n, err := strconv.ParseInt(v, 10, 64)
	plain := v == "0" || v == "" || !strings.HasPrefix(v, "0") && !strings.HasPrefix(v, "+")
	return err == nil && plain && n >= math.MinInt32 && n <= math.MaxInt32
}
