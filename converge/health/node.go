package health

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/kinds/wellknown"
)

// readies says of a condition of a node that True is good, as of Ready and of those that clouds add (NetworkingReady, StorageReady).
func readies(typ corev1.NodeConditionType) bool { return strings.HasSuffix(string(typ), "Ready") }

// troubles are parts of the names of conditions that are bad when True: those of Kubernetes, of kloop, and of the node problem
// detector. What other conditions mean nobody can know: EtcdIsVoter=True is good news.
var troubles = []string{"Pressure", "Unavailable", "Deadlock", "Problem", "Frequent", "Readonly", "ReadOnly", "Corrupt", "Shutdown",
	"Unhealthy",
	"Failed", "Failure", "Error", "Degraded", "Hung", "Down", "Leak", string(wellknown.SilentPeers), string(wellknown.IPVSUnavailable)}

// BadFor says that a condition tells of something that is wrong with a node.
func BadFor(c *corev1.NodeCondition) bool {
	if readies(c.Type) {
		return c.Status == corev1.ConditionFalse || c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	}
	return c.Status == corev1.ConditionTrue && slices.ContainsFunc(troubles,
		func(part string) bool { return strings.Contains(string(c.Type), part) })
}

// StartupTaint finds one that a program takes away when a new node may be used, by the end of its key. Of the node's own its conditions
// tell.
func StartupTaint(n *corev1.Node) *corev1.Taint {
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, "node.kubernetes.io/") &&
			(strings.HasSuffix(t.Key, "/uninitialized") || strings.HasSuffix(t.Key, "not-ready") ||
				strings.HasSuffix(t.Key, "/unregistered")) {
			return t
		}
	}
	return nil
}

func nodeHealth(w *converge.World, n *corev1.Node) converge.Health {
	for _, c := range n.Status.Conditions {
		if !BadFor(&c) {
			continue
		}
		h := converge.Health{Says: "is not ready", Want: "status.conditions[Ready]=True", Have: fmt.Sprintf("status.conditions[%s]=%s",
			c.Type, c.Status),
			Since: c.LastTransitionTime.Time}
		if readies(c.Type) && c.Type != corev1.NodeReady {
			h.Says, h.Want = "does not have "+string(c.Type), fmt.Sprintf("status.conditions[%s]=True", c.Type)
		} else if c.Type != corev1.NodeReady {
			h.Says, h.Want = "has "+string(c.Type), fmt.Sprintf("status.conditions[%s]=False", c.Type)
		}
		return h
	}
	if len(n.Status.Conditions) == 0 {
		return converge.Health{Says: "has never reported", Want: "status.conditions[Ready]=True", Have: "status.conditions empty",
			Since: n.CreationTimestamp.Time}
	}
	if t := StartupTaint(n); t != nil && !w.Early(n.CreationTimestamp.Add(general.SlowStart)) {
		return converge.Health{Says: "is not taken into use", Want: "no taint " + t.Key, Have: "spec.taints[" + t.Key + "]",
			Since: n.CreationTimestamp.Time}
	}
	return converge.Health{}
}
