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
			if letsToDNS(w, &n.Spec.Egress[i], space, n.Namespace) {
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
	return says, "let it: " + ruled(n, "egress", rule)
}

// letsToDNS says that a rule may let pods connect to the DNS of the cluster, which is in kube-system nearly everywhere.
func letsToDNS(w *converge.World, r *networkingv1.NetworkPolicyEgressRule, space *corev1.Namespace, own string) bool {
	if len(r.Ports) > 0 && !slices.ContainsFunc(r.Ports, func(p networkingv1.NetworkPolicyPort) bool {
		return p.Port == nil || p.Port.IntVal == 53 || p.Port.StrVal != "" || p.EndPort != nil
	}) {
		return false
	}
	if len(r.To) == 0 || space == nil {
		return true
	}
	servers := resource.List(w.Read, kinds.Pods, space.Name)
	if len(servers) == 0 { // they are not seen, and have the label that all give them
		servers = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: space.Name, Labels: map[string]string{"k8s-app": "kube-dns"}}}}
	}
	return slices.ContainsFunc(servers, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(r.To, func(to networkingv1.NetworkPolicyPeer) bool {
			is, _ := meets(w, &to, p, own)
			return is
		})
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
