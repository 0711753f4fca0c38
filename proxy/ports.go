package proxy

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A port is one port of one service, with all ways in and where they lead.
type port struct {
	name     string // namespace/service:port, for chains and people
	protocol corev1.Protocol
	port     uint16
	addrs    []netip.Addr // cluster IPs, external IPs and load balancer addresses
	external []netip.Addr // those of addrs that lead in from outside the cluster
	nodePort uint16       // 0: none
	sticky   bool         // the same client gets the same endpoint

	inside  []netip.AddrPort // endpoints for clients in the cluster
	outside []netip.AddrPort // endpoints for clients from outside
	local   bool             // clients from outside keep their address: outside holds only local endpoints
}

// notOurs are labels by which a service asks other proxies to take care of it.
const notOurs = "service.kubernetes.io/service-proxy-name"

// ports computes what the kernel is to do. It is pure: same snapshot, same answer, in the same order.
func ports(read resource.Reader, node string) (list []port) {
	ends := endpoints(read)
	for obj := range read.Each(kinds.Services, "") {
		s := obj.(*corev1.Service)
		if s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.ClusterIP == corev1.ClusterIPNone || s.Spec.ClusterIP == "" {
			continue
		}
		if _, other := s.Labels[notOurs]; other {
			continue
		}
		for _, p := range s.Spec.Ports {
			list = append(list, servicePort(s, p, ends[endKey{s.Namespace, s.Name, p.Name, proto(p.Protocol)}], node))
		}
	}
	slices.SortFunc(list, func(a, b port) int { return cmp.Compare(a.name, b.name) })
	return list
}

func proto(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

func servicePort(s *corev1.Service, sp corev1.ServicePort, all []end, node string) port {
	p := port{name: s.Namespace + "/" + s.Name + ":" + sp.Name + "/" + string(proto(sp.Protocol)), protocol: proto(sp.Protocol),
		port: uint16(sp.Port), nodePort: uint16(sp.NodePort), sticky: s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP,
		local: s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal}
	ips := s.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{s.Spec.ClusterIP}
	}
	p.addrs = parse(ips)
	p.external = parse(s.Spec.ExternalIPs)
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP {
			p.external = append(p.external, parse([]string{in.IP})...)
		}
	}
	p.addrs = append(p.addrs, p.external...)
	onlyLocal := s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
	p.inside = choose(all, node, onlyLocal)
	p.outside = choose(all, node, p.local)
	return p
}

// parse keeps the IPv4 addresses; the pod network has no others.
func parse(ips []string) (list []netip.Addr) {
	for _, s := range ips {
		if a, err := netip.ParseAddr(s); err == nil && a.Is4() {
			list = append(list, a)
		}
	}
	return list
}

type endKey struct {
	ns, service, port string
	protocol          corev1.Protocol
}

// An end is one endpoint of one port.
type end struct {
	at      netip.AddrPort
	node    string
	ready   bool
	serving bool // on its way out, but still answering
}

func endpoints(read resource.Reader) map[endKey][]end {
	ends := map[endKey][]end{}
	for obj := range read.Each(kinds.EndpointSlices, "") {
		s := obj.(*discoveryv1.EndpointSlice)
		name := s.Labels[discoveryv1.LabelServiceName]
		if name == "" || s.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		for _, p := range s.Ports {
			if p.Port == nil {
				continue
			}
			key := endKey{s.Namespace, name, deref(p.Name), proto(deref(p.Protocol))}
			for i := range s.Endpoints {
				if e, ok := newEnd(&s.Endpoints[i], uint16(*p.Port)); ok {
					ends[key] = append(ends[key], e)
				}
			}
		}
	}
	return ends
}

func newEnd(e *discoveryv1.Endpoint, p uint16) (end, bool) {
	if len(e.Addresses) == 0 {
		return end{}, false
	}
	addr, err := netip.ParseAddr(e.Addresses[0])
	if err != nil || !addr.Is4() {
		return end{}, false
	}
	c := e.Conditions
	return end{at: netip.AddrPortFrom(addr, p), node: deref(e.NodeName), ready: c.Ready == nil || *c.Ready,
		serving: (c.Serving == nil || *c.Serving) && c.Terminating != nil && *c.Terminating}, true
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// choose picks the ready endpoints, of this node only if local; when none is ready those that are ending but still
// serve (KEP-1669).
func choose(all []end, node string, local bool) []netip.AddrPort {
	pick := func(ok func(end) bool) (list []netip.AddrPort) {
		for _, e := range all {
			if ok(e) && (!local || e.node == node) {
				list = append(list, e.at)
			}
		}
		slices.SortFunc(list, func(a, b netip.AddrPort) int { return a.Compare(b) })
		return slices.Compact(list)
	}
	if list := pick(func(e end) bool { return e.ready }); len(list) > 0 {
		return list
	}
	return pick(func(e end) bool { return e.serving })
}
