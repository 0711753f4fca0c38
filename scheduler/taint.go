package scheduler

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

var (
	cordoned = &refusal{plugin: nodeUnschedulable, reasons: []string{"node(s) were unschedulable"}, unresolvable: true}
	tainted  = &refusal{plugin: taintToleration, reasons: []string{"node(s) had untolerated taint(s)"}, unresolvable: true}
)

// checkCordon is the plugin NodeUnschedulable.
func checkCordon(o *nodeVerdicts, s *nodeInfo) *refusal {
	if s.node.Spec.Unschedulable && !tolerates(o.pod.Spec.Tolerations, &corev1.Taint{Key: corev1.TaintNodeUnschedulable,
		Effect: corev1.TaintEffectNoSchedule}) {
		return cordoned
	}
	return nil
}

// checkTaints is the filter of the plugin TaintToleration.
func checkTaints(o *nodeVerdicts, s *nodeInfo) *refusal {
	if toleratesAll(o.pod.Spec.Tolerations, s.node.Spec.Taints) {
		return nil
	}
	return tainted
}

// toleratesAll tells whether the taints that keep pods away are all tolerated.
func toleratesAll(list []corev1.Toleration, taints []corev1.Taint) bool {
	for i := range taints {
		if taints[i].Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(list, &taints[i]) {
			return false
		}
	}
	return true
}

// scoreTaints counts the taints that only ask to stay away; fewer is better.
func scoreTaints(o *nodeVerdicts, s *nodeInfo) (n int64) {
	for i := range s.node.Spec.Taints {
		if t := &s.node.Spec.Taints[i]; t.Effect == corev1.TaintEffectPreferNoSchedule && !tolerates(o.pod.Spec.Tolerations, t) {
			n++
		}
	}
	return n
}

func tolerates(list []corev1.Toleration, t *corev1.Taint) bool {
	for i := range list {
		if toleration(&list[i], t) {
			return true
		}
	}
	return false
}

func toleration(tol *corev1.Toleration, t *corev1.Taint) bool {
	if tol.Effect != "" && tol.Effect != t.Effect || tol.Key != "" && tol.Key != t.Key {
		return false
	}
	switch tol.Operator {
	case "", corev1.TolerationOpEqual:
		return tol.Value == t.Value
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		want, err := strconv.ParseInt(tol.Value, 10, 64)
		have, err2 := strconv.ParseInt(t.Value, 10, 64)
		return err == nil && err2 == nil && (tol.Operator == corev1.TolerationOpLt && have < want ||
			tol.Operator == corev1.TolerationOpGt && have > want)
	}
	return false
}
