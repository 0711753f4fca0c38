package causes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A policy that limits what pods may connect to forgets the cluster's DNS more often than anything else.

// keptFromDNS tells of the network policies that keep a pod from the cluster's DNS, and how to let it there; "": none does.
func keptFromDNS(w *converge.World, p *corev1.Pod) (says, advice string) {
	var of []*networkingv1.NetworkPolicy
	space := resource.Get(w.Read, kinds.Namespaces, "", metav1.NamespaceSystem)
	for _, n := range resource.List(w.Read, kinds.NetworkPolicies, p.Namespace) {
		sel, err := metav1.LabelSelectorAsSelector(&n.Spec.PodSelector)
		if err != nil || !sel.Matches(labels.Set(p.Labels)) || !slices.Contains(n.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			continue
		}
		for i := range n.Spec.Egress {
			if letsToDNS(w, &n.Spec.Egress[i], space) {
				return "", ""
			}
		}
		of = append(of, n)
	}
	if len(of) == 0 || !w.Sees(kinds.NetworkPolicies, p.Namespace) || !w.Sees(kinds.Namespaces, "") {
		return "", ""
	}
	n := of[0]
	for _, other := range of {
		if len(other.Spec.Egress) > len(n.Spec.Egress) {
			n = other
		}
	}
	says = "networkpolicy/" + n.Name + " does not let it connect to the cluster's DNS" + unmatchedPeer(w, n)
	rule := `{"to":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"kube-system"}}}],"ports":[` +
		`{"protocol":"UDP","port":53},{"protocol":"TCP","port":53}]}`
	at := `"/spec/egress/-","value":` + rule
	if len(n.Spec.Egress) == 0 {
		at = `"/spec/egress","value":[` + rule + "]"
	}
	return says, "let it: kubectl patch networkpolicy " + n.Name + " -n " + n.Namespace + ` --type=json -p '[{"op":"add","path":` + at + "}]'"
}

// letsToDNS says that a rule may let pods connect to the DNS of the cluster, which is in kube-system nearly everywhere.
func letsToDNS(w *converge.World, r *networkingv1.NetworkPolicyEgressRule, space *corev1.Namespace) bool {
	if len(r.Ports) > 0 && !slices.ContainsFunc(r.Ports, func(p networkingv1.NetworkPolicyPort) bool {
		return p.Port == nil || p.Port.IntVal == 53 || p.Port.StrVal != "" || p.EndPort != nil
	}) {
		return false
	}
	return len(r.To) == 0 || space == nil || slices.ContainsFunc(r.To, func(to networkingv1.NetworkPolicyPeer) bool {
		sel, err := metav1.LabelSelectorAsSelector(to.NamespaceSelector)
		return to.IPBlock != nil || err == nil && to.NamespaceSelector != nil && sel.Matches(labels.Set(space.Labels)) &&
			selectsSome(w, to.PodSelector, space.Name)
	})
}

func selectsSome(w *converge.World, s *metav1.LabelSelector, ns string) bool {
	sel, err := metav1.LabelSelectorAsSelector(s)
	return s == nil || err != nil || slices.ContainsFunc(resource.List(w.Read, kinds.Pods, ns), func(p *corev1.Pod) bool {
		return sel.Matches(labels.Set(p.Labels))
	})
}

// unmatchedPeer tells of the namespaces that a policy's rule for DNS is for, and that there are not; "": it has no such.
func unmatchedPeer(w *converge.World, n *networkingv1.NetworkPolicy) string {
	for i := range n.Spec.Egress {
		r := &n.Spec.Egress[i]
		if !slices.ContainsFunc(r.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port != nil && p.Port.IntVal == 53 }) {
			continue
		}
		for _, to := range r.To {
			sel, err := metav1.LabelSelectorAsSelector(to.NamespaceSelector)
			if to.NamespaceSelector == nil || err != nil {
				continue
			}
			if !slices.ContainsFunc(resource.List(w.Read, kinds.Namespaces, ""), func(s *corev1.Namespace) bool {
				return sel.Matches(labels.Set(s.Labels))
			}) {
				return ": what it has for port 53 is for namespaces with " + strings.ReplaceAll(sel.String(), ",", ", ") + ", and there are none"
			}
		}
	}
	return ""
}
