package causes

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

const cloudless = "\nwithout one, do not start node agents with --cloud-provider=external"

// Taints are those that programs give and take: taking one away by hand is of no use.
var Taints = []words.Saying{
	{"node.cloudprovider.kubernetes.io/uninitialized", "",
		"look whether the cloud's controller manager runs: it takes the taint away when it has looked at the node: " +
			"kubectl get pods -n kube-system" + cloudless},
	{"ToBeDeletedByClusterAutoscaler", "", leavingNode}, {"karpenter.sh/disrupted", "", leavingNode}, {"karpenter.sh/unregistered", "",
		"it is a new node, which Karpenter has not registered yet: kubectl get nodeclaims"},
	{"node.kubernetes.io/*pressure", "", illNode}, {"node.kubernetes.io/not-ready", "", illNode},
	{"node.kubernetes.io/unreachable", "", illNode}, {"node.kubernetes.io/network-unavailable", "", illNode},
}

const (
	leavingNode = "the node is about to be removed: another one has to take its place"
	illNode     = "see what the node lacks; the taint goes when it has it: kubectl describe nodes"
)

// Tolerates says that a toleration bears a taint, for however long.
func Tolerates(o *corev1.Toleration, t *corev1.Taint) bool {
	if o.Effect != "" && o.Effect != t.Effect || o.Key != "" && o.Key != t.Key {
		return false
	}
	return o.Operator == corev1.TolerationOpExists || (o.Operator == "" || o.Operator == corev1.TolerationOpEqual) && o.Value == t.Value
}

// Tolerate is the patch of a workload by which its pods bear a taint beside what they bear already.
func Tolerate(t *corev1.PodSpec, taint *corev1.Taint) string {
	o := corev1.Toleration{Key: taint.Key, Value: taint.Value, Effect: taint.Effect}
	if o.Value == "" {
		o.Operator = corev1.TolerationOpExists
	}
	text, err := json.Marshal(append(slices.Clone(t.Tolerations), o))
	if err != nil || strings.Contains(string(text), "'") {
		return ""
	}
	return `{"spec":{"template":{"spec":{"tolerations":` + string(text) + `}}}}`
}

// toleration advises to have a pod bear the taints of a node that it does not, beside what it bears already; "": its template can't be
// changed.
func toleration(l *converge.Look, p *corev1.Pod, node string) string {
	n, t := resource.Get(l.Read, kinds.Nodes, "", node), templateAbove(l)
	if n == nil || t == nil {
		return ""
	}
	list := slices.Clone(t.Spec.Tolerations)
	for i := range n.Spec.Taints {
		has := &n.Spec.Taints[i]
		if has.Effect == corev1.TaintEffectPreferNoSchedule || slices.ContainsFunc(p.Spec.Tolerations, func(o corev1.Toleration) bool {
			return Tolerates(&o, has)
		}) {
			continue
		}
		o := corev1.Toleration{Key: has.Key, Value: has.Value, Effect: has.Effect}
		if has.Value == "" {
			o.Operator = corev1.TolerationOpExists
		}
		list = append(list, o)
	}
	text, err := json.Marshal(list)
	if err != nil || strings.Contains(string(text), "'") {
		return ""
	}
	return retemplate(l, "if its pods may run there, give them a toleration", `{"tolerations":`+string(text)+"}")
}
