package pods

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Tolerates says whether a toleration covers a taint.
func Tolerates(tol *corev1.Toleration, t *corev1.Taint) bool {
	switch {
	case tol.Effect != "" && tol.Effect != t.Effect:
		return false
	case tol.Key != "" && tol.Key != t.Key:
		return false
	}
	switch tol.Operator {
	case "", corev1.TolerationOpEqual:
		return tol.Value == t.Value
	case corev1.TolerationOpExists:
		return true
	}
	have, err := strconv.ParseInt(t.Value, 10, 64)
	if err != nil {
		return false
	}
	bound, err := strconv.ParseInt(tol.Value, 10, 64)
	if err != nil {
		return false
	}
	return tol.Operator == corev1.TolerationOpLt && have < bound || tol.Operator == corev1.TolerationOpGt && have > bound
}
