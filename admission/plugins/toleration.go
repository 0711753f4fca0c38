package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/admission"
)

// stay is for how many seconds a pod tolerates that its node fails, unless it says otherwise.
const stay int64 = 300

// defaultTolerationSeconds lets pods stay a while on nodes that are not ready or not reachable.
func defaultTolerationSeconds(_ context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !r.On("", "pods", admission.Create, admission.Update) {
		return nil
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !tolerates(pod.Spec.Tolerations, key) {
			seconds := stay
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key,
				Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		}
	}
	return nil
}

func tolerates(list []corev1.Toleration, key string) bool {
	for _, t := range list {
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}

// taintNewNodes keeps pods off a new node until it has said that it is ready.
func taintNewNodes(_ context.Context, r *admission.Request) error {
	node, ok := r.Object.(*corev1.Node)
	if !ok || !r.On("", "nodes", admission.Create) {
		return nil
	}
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady && t.Effect == corev1.TaintEffectNoSchedule {
			return nil
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	return nil
}
