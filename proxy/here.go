package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// here holds the facts that rules depend on beside services and endpoints: this node and the cluster's ranges.
type here struct {
	node, zone string
	pods       []netip.Prefix // addresses of this node's pods; upstream's local detector of mode NodeCIDR
	services   []netip.Prefix // ranges of cluster IPs
	nodePorts  []netip.Addr   // addresses at which node ports are served
	own        []netip.Addr   // addresses of the node
	external   []netip.Addr   // by which the node is reached from outside, where something in front of it translates them
	taken      string         // ports that programs of the node have at them, as its annotation lists them

	ipvs     bool         // services are virtual servers of the kernel
	machines []netip.Addr // with ipvs: addresses of nodes and of this machine's interfaces, which no service may take from them
	present  []netip.Addr // with ipvs: those of them that this machine has
}

// newHere reads it from a snapshot. Node ports are served at the node's internal addresses, as kube-proxy's "primary" has it.
func newHere(cfg *Config, read resource.Reader, interfaces []netip.Addr) here {
	h := here{node: cfg.Node, ipvs: cfg.ipvs}
	if n := resource.Get(read, kinds.Nodes, "", cfg.Node); n != nil {
		h.zone = n.Labels[corev1.LabelTopologyZone]
		h.pods = prefixes(podRanges(n))
		for _, a := range n.Status.Addresses {
			switch a.Type {
			case corev1.NodeInternalIP:
				h.own = append(h.own, addrs(a.Address)...)
			case corev1.NodeExternalIP:
				h.external = append(h.external, addrs(a.Address)...)
			}
		}
		h.taken = "," + n.Annotations[wellknown.TakenPortsAnnotation] + ","
	}
	if len(h.pods) == 0 {
		h.pods = slices.Clone(cfg.Pods)
	}
	if len(h.own) == 0 && cfg.Address.IsValid() {
		h.own = []netip.Addr{cfg.Address}
	}
	for obj := range read.Each(kinds.ServiceCIDRs, "") {
		h.services = append(h.services, prefixes(obj.(*networkingv1.ServiceCIDR).Spec.CIDRs)...)
	}
	if len(h.services) == 0 {
		h.services = slices.Clone(cfg.Services)
	}
	if len(h.services) == 0 {
		h.services = prefixes([]string{"10.96.0.0/16"})
	}
	h.nodePorts = nodePortAddresses(cfg.NodePortAddresses, h.own, interfaces)
	for _, list := range [][]netip.Prefix{h.pods, h.services} {
		coldsort.Func(list, netip.Prefix.Compare)
	}
	coldsort.Func(h.own, netip.Addr.Compare)
	if h.ipvs {
		h.lookAround(read, interfaces)
	}
	return h
}

// lookAround finds out which addresses are of machines. In mode ipvs a service's address becomes this machine's own, whole: one that a
// machine has stays its.
func (h *here) lookAround(read resource.Reader, interfaces []netip.Addr) {
	h.present = slices.Concat(h.own, interfaces)
	h.machines = slices.Clone(h.present)
	for obj := range read.Each(kinds.Nodes, "") {
		for _, a := range obj.(*corev1.Node).Status.Addresses {
			if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
				h.machines = append(h.machines, addrs(a.Address)...)
			}
		}
	}
	for _, list := range []*[]netip.Addr{&h.present, &h.machines} {
		coldsort.Func(*list, netip.Addr.Compare)
		*list = slices.Compact(*list)
	}
}

// virtual are the addresses of a service that no machine has: those of load balancers, or with ipvs all.
func (h *here) virtual(s *corev1.Service, in family) []netip.Addr {
	if !h.ipvs {
		return fromPool(s, in.ingress)
	}
	return slices.DeleteFunc(slices.Concat(in.cluster, in.external, in.ingress), func(a netip.Addr) bool {
		return slices.Contains(h.machines, a) || a.IsLoopback() || a.IsUnspecified()
	})
}

// leaves says that packets to an address leave this machine in mode ipvs, for the one that has it.
func (h *here) leaves(a netip.Addr) bool {
	return h.ipvs && slices.Contains(h.machines, a) && !slices.Contains(h.present, a)
}

func podRanges(n *corev1.Node) []string {
	if len(n.Spec.PodCIDRs) == 0 && n.Spec.PodCIDR != "" {
		return []string{n.Spec.PodCIDR}
	}
	return n.Spec.PodCIDRs
}

// Primary stands for the node's internal addresses in Config.NodePortAddresses.
const Primary = wellknown.NodePortPrimary

// nodePortAddresses picks those of the machine's addresses that the words ask for. The loopback is never among them: a packet
// from there can't be led to another address, it would be lost instead of refused.
func nodePortAddresses(words []string, own, interfaces []netip.Addr) (list []netip.Addr) {
	if len(words) == 0 {
		words = []string{Primary}
	}
	for _, w := range words {
		if w == Primary {
			list = append(list, own...)
			continue
		}
		for _, p := range prefixes([]string{w}) {
			for _, a := range interfaces {
				if p.Contains(a) {
					list = append(list, a)
				}
			}
		}
	}
	list = slices.DeleteFunc(list, func(a netip.Addr) bool { return a.IsLoopback() || a.IsLinkLocalUnicast() })
	coldsort.Func(list, netip.Addr.Compare)
	return slices.Compact(list)
}

func (h here) equal(o here) bool {
	return h.node == o.node && h.zone == o.zone && slices.Equal(h.pods, o.pods) && slices.Equal(h.services, o.services) &&
		slices.Equal(h.nodePorts, o.nodePorts) && slices.Equal(h.own, o.own) && slices.Equal(h.external, o.external) &&
		h.taken == o.taken &&
		h.ipvs == o.ipvs && slices.Equal(h.machines, o.machines) && slices.Equal(h.present, o.present)
}

// lends says whether a service may have a port of an address from outside: where the address is the node's own, unless a program of
// the node has it.
func (h *here) lends(a netip.Addr, p *corev1.ServicePort) bool {
	mine := slices.Contains(h.own, a) || slices.Contains(h.external, a)
	return !mine || !strings.Contains(h.taken, fmt.Sprintf(",%d/%s,", p.Port, proto(p.Protocol)))
}

// addrs and prefixes keep what can be read. Validation has seen to it that all can.
func addrs(texts ...string) (list []netip.Addr) {
	for _, s := range texts {
		if a, err := netip.ParseAddr(s); err == nil {
			list = append(list, a.Unmap())
		}
	}
	return list
}

func prefixes(texts []string) (list []netip.Prefix) {
	for _, s := range texts {
		if p, err := netip.ParsePrefix(s); err == nil {
			list = append(list, p.Masked())
		}
	}
	return list
}
