package nodelifecycle

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
)

// plan is pure: it returns the node as it should be.
func plan(n *corev1.Node, silent bool, now time.Time) *corev1.Node {
	next := resource.Clone(n)
	if silent {
		next.Status.Conditions = unknown(n, now)
	}
	next.Spec.Taints = taints(next, now)
	next.Labels = labels(n.Labels)
	return next
}

// silentReason is why a node that was heard of is not any more.
const silentReason = "NodeStatusUnknown"

// unknown is the node's conditions with those that only its agent knows set to Unknown.
func unknown(n *corev1.Node, now time.Time) []corev1.NodeCondition {
	list := slices.Clone(n.Status.Conditions)
	for _, t := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure,
		corev1.NodePIDPressure} {
		at := slices.IndexFunc(list, func(c corev1.NodeCondition) bool { return c.Type == t })
		switch {
		case at < 0:
			list = append(list, corev1.NodeCondition{Type: t, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated",
				Message: "Kubelet never posted node status.", LastHeartbeatTime: n.CreationTimestamp, LastTransitionTime: metav1.NewTime(now)})
		case list[at].Status != corev1.ConditionUnknown:
			c := &list[at]
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, silentReason, "Kubelet stopped posting node status."
			c.LastTransitionTime = metav1.NewTime(now)
		}
	}
	return list
}

// scheduleTaints are the NoSchedule taints that stand for a condition having a status.
var scheduleTaints = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	key       string
}{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
}

// taints is the node's taints with those that follow from its state made to follow. Those of others stay. New ones come in the order of
// the node's conditions, and those that drive pods out last.
func taints(n *corev1.Node, now time.Time) (list []corev1.Taint) {
	want := wanted(n)
	ours := map[string]bool{id(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule): true}
	for _, t := range scheduleTaints {
		ours[id(t.key, corev1.TaintEffectNoSchedule)] = true
		ours[id(t.key, corev1.TaintEffectNoExecute)] = t.condition == corev1.NodeReady
	}
	for _, t := range n.Spec.Taints {
		at := slices.IndexFunc(want, func(w corev1.Taint) bool { return w.MatchTaint(&t) })
		if at >= 0 || !ours[id(t.Key, t.Effect)] {
			list = append(list, t)
		}
		if at >= 0 {
			want = slices.Delete(want, at, at+1)
		}
	}
	for _, t := range want {
		t.TimeAdded = &metav1.Time{Time: now}
		list = append(list, t)
	}
	return list
}

// wanted are the taints that follow from the node's state.
func wanted(n *corev1.Node) (list []corev1.Taint) {
	out := ""
	for _, c := range n.Status.Conditions {
		for _, t := range scheduleTaints {
			if t.condition == c.Type && t.status == c.Status {
				list = append(list, corev1.Taint{Key: t.key, Effect: corev1.TaintEffectNoSchedule})
				if c.Type == corev1.NodeReady {
					out = t.key
				}
			}
		}
	}
	if n.Spec.Unschedulable {
		list = append(list, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	if out != "" {
		list = append(list, corev1.Taint{Key: out, Effect: corev1.TaintEffectNoExecute})
	}
	return list
}

func id(key string, e corev1.TaintEffect) string { return key + ":" + string(e) }

// labels keeps the old names of well-known labels in step with the new ones.
func labels(have map[string]string) map[string]string {
	next := have
	for _, l := range [][2]string{{corev1.LabelOSStable, "beta.kubernetes.io/os"}, {corev1.LabelArchStable, "beta.kubernetes.io/arch"}} {
		if v, ok := have[l[0]]; ok && (next[l[1]] != v) {
			next = maps.Clone(next)
			next[l[1]] = v
		}
	}
	return next
}

func find(n *corev1.Node, t corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == t {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}
