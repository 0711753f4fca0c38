// Package testpolicy makes up clusters with network policies, for tests: by hand, or at random with every field of the API.
package testpolicy

import (
	"fmt"
	"iter"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A Snapshot is a cluster made up for a test. Objects stand in order of namespace and name.
type Snapshot map[resource.Kind][]resource.Object

// Revision is always 1.
func (s Snapshot) Revision(resource.Kind) int64 { return 1 }

// Lookup finds one object; nil: it is not there.
func (s Snapshot) Lookup(k resource.Kind, ns, name string) resource.Object {
	for o := range s.Each(k, ns) {
		if o.GetName() == name {
			return o
		}
	}
	return nil
}

// Each goes through the objects of a kind, in a namespace or in all.
func (s Snapshot) Each(k resource.Kind, ns string) iter.Seq[resource.Object] {
	return func(yield func(resource.Object) bool) {
		for _, o := range s[k] {
			if (ns == "" || o.GetNamespace() == ns) && !yield(o) {
				return
			}
		}
	}
}

// ByOwner is not for these tests.
func (s Snapshot) ByOwner(resource.Kind, string) iter.Seq[resource.Object] { panic("not asked") }

// ByField is not for these tests.
func (s Snapshot) ByField(resource.Kind, string, string) iter.Seq[resource.Object] {
	panic("not asked")
}

// ByLabel is not for these tests.
func (s Snapshot) ByLabel(resource.Kind, string, string, string) iter.Seq[resource.Object] {
	panic("not asked")
}

// Add puts an object at the end.
func (s Snapshot) Add(k resource.Kind, o resource.Object) { s[k] = append(s[k], o) }

// Space adds a namespace.
func (s Snapshot) Space(name string, labels map[string]string) {
	l := map[string]string{"kubernetes.io/metadata.name": name}
	for k, v := range labels {
		l[k] = v
	}
	s.Add(kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: l}})
}

// Node adds a node with one address.
func (s Snapshot) Node(name, addr string) {
	s.Add(kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr}}}})
}

// Pod adds a pod with two named ports.
func (s Snapshot) Pod(ns, name, node string, labels map[string]string, addrs ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(ns + "/" + name), Labels: labels}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{
		{Name: "http", ContainerPort: 80}, {Name: "dns", ContainerPort: 81, Protocol: corev1.ProtocolUDP}}}}
	for _, a := range addrs {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a})
	}
	s.Add(kinds.Pods, p)
	return p
}

// Policy adds a NetworkPolicy.
func (s Snapshot) Policy(ns, name string, spec networkingv1.NetworkPolicySpec) {
	s.Add(kinds.NetworkPolicies, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: spec})
}

// Protocols that random policies and connections have.
var Protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}

// Random makes policies for pods in the namespaces x, y, z with labels pod and tier: every field of the API, with few values,
// so that they meet.
type Random struct{ *rand.Rand }

func (r Random) selector() metav1.LabelSelector {
	switch r.IntN(5) {
	case 0:
		return metav1.LabelSelector{}
	case 1:
		return metav1.LabelSelector{MatchLabels: map[string]string{"pod": string('a' + rune(r.IntN(3)))}}
	case 2:
		return metav1.LabelSelector{MatchLabels: map[string]string{"tier": fmt.Sprint(r.IntN(2))}}
	case 3:
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "pod", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}},
			{Key: "tier", Operator: metav1.LabelSelectorOpExists}}}
	}
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "pod", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a"}}, {Key: "none", Operator: metav1.LabelSelectorOpDoesNotExist}}}
}

func (r Random) spaces() *metav1.LabelSelector {
	switch r.IntN(3) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": string('x' + rune(r.IntN(3)))}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"team": fmt.Sprint(r.IntN(2))}}
}

// block is around the addresses of pods: 10.1.x.y, and fd01::x:y.
func (r Random) block() *networkingv1.IPBlock {
	switch r.IntN(5) {
	case 0:
		return &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"10.1.1.0/24", "10.1.0.1/32"}[:r.IntN(3)]}
	case 1:
		return &networkingv1.IPBlock{CIDR: "::/0", Except: []string{"fd01::1:0/112"}[:r.IntN(2)]}
	case 2:
		return &networkingv1.IPBlock{CIDR: fmt.Sprintf("10.1.%d.0/24", r.IntN(3)),
			Except: []string{fmt.Sprintf("10.1.%d.2/31", r.IntN(3))}[:r.IntN(2)]}
	case 3:
		return &networkingv1.IPBlock{CIDR: fmt.Sprintf("fd01::%d:0/112", r.IntN(3))}
	}
	return &networkingv1.IPBlock{CIDR: fmt.Sprintf("10.1.%d.%d/32", r.IntN(3), 1+r.IntN(3))}
}

func (r Random) peers() (list []networkingv1.NetworkPolicyPeer) {
	for range r.IntN(3) {
		p := networkingv1.NetworkPolicyPeer{}
		switch r.IntN(4) {
		case 0:
			p.IPBlock = r.block()
		case 1:
			p.NamespaceSelector = r.spaces()
		case 2:
			s := r.selector()
			p.NamespaceSelector, p.PodSelector = r.spaces(), &s
		case 3:
			s := r.selector()
			p.PodSelector = &s
		}
		list = append(list, p)
	}
	return list
}

func (r Random) ports() (list []networkingv1.NetworkPolicyPort) {
	for range r.IntN(3) {
		p := networkingv1.NetworkPolicyPort{}
		if r.IntN(3) > 0 {
			p.Protocol = &Protocols[r.IntN(3)]
		}
		switch r.IntN(4) {
		case 0:
			n := intstr.FromString([]string{"http", "dns", "nowhere"}[r.IntN(3)])
			p.Port = &n
		case 1:
			n, end := intstr.FromInt32(79), int32(79+r.IntN(4))
			p.Port, p.EndPort = &n, &end
		case 2:
			n := intstr.FromInt32(int32(80 + r.IntN(3)))
			p.Port = &n
		}
		list = append(list, p)
	}
	return list
}

func (r Random) policy() (s networkingv1.NetworkPolicySpec) {
	s.PodSelector = r.selector()
	for range r.IntN(3) {
		s.Ingress = append(s.Ingress, networkingv1.NetworkPolicyIngressRule{From: r.peers(), Ports: r.ports()})
	}
	for range r.IntN(3) {
		s.Egress = append(s.Egress, networkingv1.NetworkPolicyEgressRule{To: r.peers(), Ports: r.ports()})
	}
	s.PolicyTypes = [][]networkingv1.PolicyType{{networkingv1.PolicyTypeIngress}, {networkingv1.PolicyTypeEgress},
		{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, nil}[r.IntN(4)]
	return s
}

// Cluster is three namespaces of three pods each, on three nodes, with a few policies: pod ns/name has the addresses 10.1.NS.NAME and
// fd01::NS:NAME.
func (r Random) Cluster(nodes int) Snapshot {
	s := Snapshot{}
	for n := range nodes {
		s.Node(fmt.Sprint("n", n), fmt.Sprintf("10.9.0.%d", n+1))
	}
	for x, ns := range []string{"x", "y", "z"} {
		s.Space(ns, map[string]string{"team": fmt.Sprint(x % 2)})
		for y, name := range []string{"a", "b", "c"} {
			p := s.Pod(ns, name, fmt.Sprint("n", y%nodes), map[string]string{"pod": name, "tier": fmt.Sprint(r.IntN(2))},
				fmt.Sprintf("10.1.%d.%d", x, y+1), fmt.Sprintf("fd01::%d:%d", x, y+1))
			if r.IntN(3) == 0 {
				p.Spec.Containers[0].Ports[0].ContainerPort = 82
			}
		}
		for i := range r.IntN(4) {
			s.Policy(ns, fmt.Sprint("p", i), r.policy())
		}
	}
	return s
}
