package netpolicy

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Direction is one of the two in which a pod can be isolated.
type Direction string

// The directions, as a policy's policyTypes name them.
const (
	Ingress = Direction(networkingv1.PolicyTypeIngress)
	Egress  = Direction(networkingv1.PolicyTypeEgress)
)

// A policy is a NetworkPolicy that is read once.
type policy struct {
	*networkingv1.NetworkPolicy
	subject selector
	rules   map[Direction][]rule // a direction that is not there is not isolated
}

// A rule allows connections from (to) any of its peers on any of its ports.
type rule struct {
	peers []peer // none: everybody
	ports []port // none: every protocol and port
}

// A peer is a block of addresses, or the pods that a selector matches.
type peer struct {
	block  netip.Prefix // valid: the peer is a block
	except []netip.Prefix
	own    bool     // the policy's own namespace
	spaces selector // namespaces, if not only the own one
	pods   selector
}

// A port is a protocol with a range of port numbers, or the name of a port of the destination.
type port struct {
	protocol   corev1.Protocol
	from, to   uint16 // both 0: all of the protocol
	named      string
	everything bool // no port is given
}

func compile(p *networkingv1.NetworkPolicy) *policy {
	c := &policy{NetworkPolicy: p, subject: newSelector(&p.Spec.PodSelector), rules: map[Direction][]rule{}}
	if isolates(p, networkingv1.PolicyTypeIngress) {
		c.rules[Ingress] = []rule{}
		for _, r := range p.Spec.Ingress {
			c.rules[Ingress] = append(c.rules[Ingress], rule{compilePeers(r.From), compilePorts(r.Ports)})
		}
	}
	if isolates(p, networkingv1.PolicyTypeEgress) {
		c.rules[Egress] = []rule{}
		for _, r := range p.Spec.Egress {
			c.rules[Egress] = append(c.rules[Egress], rule{compilePeers(r.To), compilePorts(r.Ports)})
		}
	}
	return c
}

// isolates says whether a policy isolates in a direction. Objects of an old store may lack policyTypes, which defaulting fills in today:
// always Ingress, and Egress if there are egress rules.
func isolates(p *networkingv1.NetworkPolicy, t networkingv1.PolicyType) bool {
	if len(p.Spec.PolicyTypes) == 0 {
		return t == networkingv1.PolicyTypeIngress || len(p.Spec.Egress) > 0
	}
	return slices.Contains(p.Spec.PolicyTypes, t)
}

func compilePeers(list []networkingv1.NetworkPolicyPeer) (out []peer) {
	for _, p := range list {
		if p.IPBlock != nil {
			out = append(out, compileBlock(p.IPBlock))
			continue
		}
		c := peer{own: p.NamespaceSelector == nil}
		if p.NamespaceSelector != nil {
			c.spaces = newSelector(p.NamespaceSelector)
		}
		c.pods = selector{Selector: labels.Everything()}
		if p.PodSelector != nil {
			c.pods = newSelector(p.PodSelector)
		}
		out = append(out, c)
	}
	return out
}

// compileBlock reads an ipBlock. One that can't be read becomes a peer that matches nobody.
func compileBlock(b *networkingv1.IPBlock) peer {
	block, err := netip.ParsePrefix(b.CIDR)
	if err != nil {
		return peer{own: true, pods: selector{Selector: labels.Nothing()}}
	}
	c := peer{block: block.Masked()}
	for _, e := range b.Except {
		if x, err := netip.ParsePrefix(e); err == nil {
			c.except = append(c.except, x.Masked())
		}
	}
	return c
}

func compilePorts(list []networkingv1.NetworkPolicyPort) (out []port) {
	for _, p := range list {
		c := port{protocol: corev1.ProtocolTCP}
		if p.Protocol != nil {
			c.protocol = *p.Protocol
		}
		switch {
		case p.Port == nil:
			c.everything = true
		case p.Port.StrVal != "":
			c.named = p.Port.StrVal
		default:
			c.from, c.to = uint16(p.Port.IntVal), uint16(p.Port.IntVal)
			if p.EndPort != nil {
				c.to = uint16(*p.EndPort)
			}
		}
		out = append(out, c)
	}
	return out
}

// number resolves a named port at a pod: the container port of that name and protocol, of any kind of container.
func number(p *corev1.Pod, name string, protocol corev1.Protocol) (uint16, bool) {
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			for _, cp := range list[i].Ports {
				of := cp.Protocol
				if of == "" {
					of = corev1.ProtocolTCP
				}
				if cp.Name == name && of == protocol {
					return uint16(cp.ContainerPort), true
				}
			}
		}
	}
	return 0, false
}
