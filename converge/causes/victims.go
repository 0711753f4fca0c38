package causes

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// victims names the pods of less priority that are stopping on the node that a pod is to get: it waits for them, until the last one's
// time is over.
func victims(w *converge.World, p *corev1.Pod, node string) (says string, until time.Time) {
	var names []string
	for obj := range w.Read.ByField(kinds.Pods, "spec.nodeName", node) {
		if v := resource.As[*corev1.Pod](obj); v.DeletionTimestamp != nil && ptr.Deref(v.Spec.Priority, 0) < ptr.Deref(p.Spec.Priority, 0) {
			name := "pod/" + v.Name
			if v.Namespace != p.Namespace {
				name = "a pod of another namespace"
			}
			if names = append(names, name); v.DeletionTimestamp.After(until) {
				until = v.DeletionTimestamp.Time
			}
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "", until
	}
	return "; stopping on " + node + ", with less priority: " + words.List(names, 3), until
}

// slowest is the pod whose end another one waits for, if that is long from now, and it may be named.
func slowest(w *converge.World, p *corev1.Pod, node string, until time.Time) *corev1.Pod {
	for obj := range w.Read.ByField(kinds.Pods, "spec.nodeName", node) {
		if v := resource.As[*corev1.Pod](obj); v.DeletionTimestamp != nil && v.DeletionTimestamp.Time.Equal(until) &&
			v.Namespace == p.Namespace && until.Sub(w.Now) > 2*time.Minute {
			return v
		}
	}
	return nil
}
