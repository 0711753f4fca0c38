package proxy

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// An address catches connections.
type address struct {
	ip       netip.Addr
	protocol uint8
	port     uint16
}

// Kinds of addresses. When two services claim one the smaller kind has it: nobody's external IP takes a cluster IP away.
const (
	clusterIP = iota
	nodePort
	loadBalancerIP
	externalIP
)

// A claim says what shall happen at an address.
type claim struct {
	at   address
	kind int
	list uint64 // which endpoints; see list.id
	way  way
	id   uint64 // of the way
}

// A list is endpoints to choose from.
type list struct {
	id     uint64 // of the policy Cluster: even. That of the policy Local is one more.
	v6     bool
	sticky bool
	ends   []netip.AddrPort
}

// A service holds the kernel's part of a Service. It is a pure function of the Service, its slices and here.
type service struct {
	name   key
	uid    types.UID
	made   metav1.Time
	claims []claim
	lists  []list
	local  []netip.Addr // endpoints on this node

	ipvs    bool         // virtual servers of IPVS have its endpoints
	virtual []netip.Addr // load balancer addresses that no machine has; with ipvs: all that are its own
	health  *health
}

// health answers load balancers at the health check port.
type health struct {
	port  uint16
	local int // ready endpoints on this node
}

// plan reads a service from a snapshot; nil when there is nothing to do for it.
func plan(read resource.Reader, name key, h *here) *service {
	s := resource.Get(read, kinds.Services, name.Namespace, name.Name)
	if s == nil || !proxied(s) {
		return nil
	}
	var own []*discoveryv1.EndpointSlice
	for obj := range read.ByLabel(kinds.EndpointSlices, name.Namespace, discoveryv1.LabelServiceName, name.Name) {
		if unlabelled(obj.GetLabels()) {
			own = append(own, obj.(*discoveryv1.EndpointSlice))
		}
	}
	return newService(s, own, h)
}

// proxied says whether a service has addresses that are ours to serve.
func proxied(s *corev1.Service) bool {
	return unlabelled(s.Labels) && s.Spec.Type != corev1.ServiceTypeExternalName &&
		s.Spec.ClusterIP != corev1.ClusterIPNone && s.Spec.ClusterIP != ""
}

// unlabelled says that no label of a service, or of some of its endpoints, takes it from this proxy.
func unlabelled(labels map[string]string) bool {
	_, other := labels["service.kubernetes.io/service-proxy-name"]
	_, headless := labels[corev1.IsHeadlessService]
	return !other && !headless
}

func newService(s *corev1.Service, slicesOf []*discoveryv1.EndpointSlice, h *here) *service {
	out := &service{name: key{Namespace: s.Namespace, Name: s.Name}, uid: s.UID, made: s.CreationTimestamp, ipvs: h.ipvs}
	for _, v6 := range []bool{false, true} {
		in := inFamily(s, h, v6)
		if len(in.cluster) == 0 {
			continue
		}
		out.virtual = append(out.virtual, h.virtual(s, in)...)
		for i := range s.Spec.Ports {
			out.port(s, &s.Spec.Ports[i], in, portEndpoints(slicesOf, s.Spec.Ports[i].Name, proto(s.Spec.Ports[i].Protocol), v6), h, v6)
		}
	}
	coldsort.Func(out.local, netip.Addr.Compare)
	out.local = slices.Compact(out.local)
	out.claims = distinct(out.claims)
	if localOnly(s) && s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.HealthCheckNodePort != 0 {
		out.health = &health{port: uint16(s.Spec.HealthCheckNodePort), local: readyHere(slicesOf, h.node)}
	}
	return out
}

// fromPool are those load balancer addresses of a service that came from a pool, kloop's or MetalLB's: no machine has them, and a packet
// to a port of them that nobody serves would only be sent on to where it came from. Others may be a machine's, which serves more there.
func fromPool(s *corev1.Service, ingress []netip.Addr) []netip.Addr {
	for _, by := range []string{"metallb.io", "metallb.universe.tf"} {
		if s.Annotations[by+"/ip-allocated-from-pool"] != "" {
			return ingress
		}
	}
	return nil
}

// readyHere counts the pods of this node that take new connections. One with addresses of both families is in slices of both, and
// counts once: balancers share connections out by these numbers.
func readyHere(slicesOf []*discoveryv1.EndpointSlice, node string) int {
	ready := map[discoveryv1.AddressType]map[string]bool{}
	most := 0
	for _, s := range slicesOf {
		if ready[s.AddressType] == nil {
			ready[s.AddressType] = map[string]bool{}
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if (e.Conditions.Ready == nil || *e.Conditions.Ready) && deref(e.NodeName) == node && len(e.Addresses) > 0 {
				ready[s.AddressType][e.Addresses[0]] = true
			}
		}
		most = max(most, len(ready[s.AddressType]))
	}
	return most
}

// family holds a service's addresses of one family.
type family struct {
	cluster, external, ingress, node []netip.Addr
	from                             string // who may come in by ingress; "": all
}

func inFamily(s *corev1.Service, h *here, v6 bool) family {
	only := func(list []netip.Addr) []netip.Addr {
		return slices.DeleteFunc(slices.Clone(list), func(a netip.Addr) bool { return a.Is6() != v6 })
	}
	ips := s.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{s.Spec.ClusterIP}
	}
	f := family{cluster: only(addrs(ips...)), external: only(addrs(s.Spec.ExternalIPs...)), node: only(h.nodePorts)}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP {
			f.ingress = append(f.ingress, only(addrs(in.IP))...)
		}
	}
	if slices.ContainsFunc(f.ingress, func(a netip.Addr) bool { return slices.Contains(h.external, a) }) {
		f.ingress = append(f.ingress, only(h.own)...) // where the packet goes once its address is translated
	}
	f.from = sources(s, f.ingress, h, v6)
	return f
}

// sources joins the ranges that may reach a load balancer's address. When the node itself may, so may the address: it is the
// source of the node's own packets where it stands on one of its interfaces.
func sources(s *corev1.Service, ingress []netip.Addr, h *here, v6 bool) string {
	ranges := s.Spec.LoadBalancerSourceRanges
	if text := strings.TrimSpace(s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]); len(ranges) == 0 && text != "" {
		ranges = strings.Split(text, ",")
	}
	ranges = slices.Clone(ranges)
	for i := range ranges {
		ranges[i] = strings.TrimSpace(ranges[i])
	}
	list := slices.DeleteFunc(prefixes(ranges), func(p netip.Prefix) bool { return p.Addr().Is6() != v6 })
	if slices.ContainsFunc(list, func(p netip.Prefix) bool { return slices.ContainsFunc(h.own, p.Contains) }) {
		for _, a := range ingress {
			list = append(list, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	coldsort.Func(list, netip.Prefix.Compare)
	var words []string
	for _, p := range slices.Compact(list) {
		if p.Bits() == 0 {
			return "" // everybody
		}
		words = append(words, p.String())
	}
	return strings.Join(words, ",")
}

func localOnly(s *corev1.Service) bool {
	return s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// port adds the claims and lists of one port in one family.
func (out *service) port(s *corev1.Service, p *corev1.ServicePort, in family, all []endpoint, h *here, v6 bool) {
	id := digest(s.Namespace+"/"+s.Name+"/"+string(proto(p.Protocol))+"/"+p.Name) &^ 1
	anywhere, near := everywhere(all, h), onNode(all, h.node)
	sticky := affinitySeconds(s)
	if len(anywhere) > 0 {
		out.lists = append(out.lists, list{id: id, v6: v6, sticky: sticky != 0, ends: targets(anywhere)})
	}
	if (insideLocal(s) || localOnly(s)) && len(near) > 0 {
		out.lists = append(out.lists, list{id: id | 1, v6: v6, sticky: sticky != 0, ends: targets(near)})
	}
	for _, e := range slices.Concat(anywhere, near) {
		if e.node == h.node {
			out.local = append(out.local, e.at.Addr())
		}
	}
	inside, outside := servicePortWays(s, len(anywhere), len(near), sticky)
	guarded := outside
	guarded.from = in.from
	for _, g := range []struct {
		kind  int
		addrs []netip.Addr
		port  int32
		way   way
	}{
		{clusterIP, in.cluster, p.Port, inside},
		{nodePort, in.node, p.NodePort, outside},
		{loadBalancerIP, in.ingress, p.Port, guarded},
		{externalIP, in.external, p.Port, outside},
	} {
		if g.port == 0 || len(g.addrs) == 0 {
			continue
		}
		number := g.way.id()
		for _, a := range g.addrs {
			if g.kind == loadBalancerIP && !h.lends(a, p) || g.kind >= loadBalancerIP && h.leaves(a) {
				continue
			}
			out.claims = append(out.claims, claim{address{a, protocolNumber(p.Protocol), uint16(g.port)}, g.kind, id, g.way, number})
		}
	}
}

// servicePortWays are the ways of clients inside the cluster, by cluster IP, and of those outside, by the service's policies and the
// numbers of endpoints that the policies Cluster and Local have.
func servicePortWays(s *corev1.Service, anywhere, near int, sticky int32) (inside, outside way) {
	if anywhere == 0 {
		return way{kind: refuse}, way{kind: refuse}
	}
	inside = way{kind: pick, n: anywhere, sticky: sticky}
	outside = way{kind: pick, n: anywhere, sticky: sticky, masq: true}
	local := way{kind: split, n: anywhere, local: near, sticky: sticky}
	if insideLocal(s) {
		inside = local.onNode()
	}
	if localOnly(s) {
		outside = local
	}
	return inside, outside
}

func insideLocal(s *corev1.Service) bool {
	return deref(s.Spec.InternalTrafficPolicy) == corev1.ServiceInternalTrafficPolicyLocal
}

// affinitySeconds is the time for which a client keeps its endpoint; 0: it does not.
func affinitySeconds(s *corev1.Service) int32 {
	if s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		return *c.ClientIP.TimeoutSeconds
	}
	return corev1.DefaultClientIPServiceAffinitySeconds
}

// distinct keeps the strongest claim to each address.
func distinct(claims []claim) []claim {
	best := make(map[address]int, len(claims))
	for i := range claims {
		if b, there := best[claims[i].at]; !there || claims[i].kind < claims[b].kind {
			best[claims[i].at] = i
		}
	}
	if len(best) == len(claims) {
		return claims
	}
	var out []claim
	for i := range claims {
		if best[claims[i].at] == i {
			out = append(out, claims[i])
		}
	}
	return out
}

// protocolNumber is the protocol's number in the IP header.
func protocolNumber(p corev1.Protocol) uint8 {
	switch p {
	case corev1.ProtocolUDP:
		return 17
	case corev1.ProtocolSCTP:
		return 132
	}
	return 6
}
