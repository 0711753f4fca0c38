package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// TolerationRules say which tolerations pods get, and which they may have, where their namespace does not say.
type TolerationRules struct {
	Default   []corev1.Toleration `json:"default,omitempty"`
	Whitelist []corev1.Toleration `json:"whitelist,omitempty"`
}

// Mutate gives a pod the tolerations of its namespace, or the default ones.
func (t TolerationRules) Mutate(ctx context.Context, r *Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !r.On("", "pods", Create, Update) {
		return nil
	}
	var more []corev1.Toleration
	if r.Op == Create {
		own, found, err := tolerationsOf(ctx, r, "scheduler.alpha.kubernetes.io/defaultTolerations")
		if err != nil {
			return err
		}
		if more = own; !found {
			more = slices.Clone(t.Default)
		}
	}
	if !besteffort(pod) {
		more = append(more, corev1.Toleration{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoSchedule})
	}
	if len(more) > 0 {
		pod.Spec.Tolerations = mergeTolerations(slices.Concat(pod.Spec.Tolerations, more))
	}
	return nil
}

// Validate refuses a pod with a toleration that it may not have.
func (t TolerationRules) Validate(ctx context.Context, r *Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !r.On("", "pods", Create, Update) {
		return nil
	}
	allowed, found, err := tolerationsOf(ctx, r, "scheduler.alpha.kubernetes.io/tolerationsWhitelist")
	if err != nil {
		return err
	}
	if !found {
		allowed = t.Whitelist
	}
	for _, own := range pod.Spec.Tolerations {
		if len(allowed) > 0 && !slices.ContainsFunc(allowed, func(w corev1.Toleration) bool { return covers(w, own) }) {
			return Unclassified("pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist")
		}
	}
	return nil
}

// tolerationsOf reads an annotation of the namespace.
func tolerationsOf(ctx context.Context, r *Request, key string) (list []corev1.Toleration, found bool, err error) {
	text, found, err := AnnotationOf(ctx, r, key)
	if err != nil || !found || text == "" {
		return nil, false, err
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, false, Unclassified(fmt.Sprint(err))
	}
	return list, true, nil
}

// besteffort says that no container asks for processor time or memory.
func besteffort(pod *corev1.Pod) bool {
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			if !list.Cpu().IsZero() || !list.Memory().IsZero() {
				return false
			}
		}
	}
	return true
}

// mergeTolerations leaves out what others of the list cover; of equal ones the first stays.
func mergeTolerations(all []corev1.Toleration) (kept []corev1.Toleration) {
	for i, t := range all {
		before := slices.ContainsFunc(kept, func(k corev1.Toleration) bool { return covers(k, t) })
		after := slices.ContainsFunc(all[i+1:], func(o corev1.Toleration) bool {
			return !equality.Semantic.DeepEqual(o, t) && covers(o,
				t)
		})
		if !before && !after {
			kept = append(kept, t)
		}
	}
	return kept
}

// covers says that whatever t tolerates, wide does too.
func covers(wide, t corev1.Toleration) bool {
	switch {
	case equality.Semantic.DeepEqual(wide, t):
		return true
	case t.Key != wide.Key && (wide.Key != "" || wide.Operator != corev1.TolerationOpExists):
		return false
	case t.Effect != wide.Effect && wide.Effect != "":
		return false
	case wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil &&
		(t.TolerationSeconds == nil || *t.TolerationSeconds > *wide.TolerationSeconds):
		return false
	case wide.Operator == corev1.TolerationOpExists:
		return true
	case wide.Operator == corev1.TolerationOpEqual || wide.Operator == "":
		return t.Operator == wide.Operator && t.Value == wide.Value
	}
	return false
}
