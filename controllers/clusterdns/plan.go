package clusterdns

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

const (
	manager     = "cluster-dns.kloop.dev"        // of our slices
	ours        = "app.kubernetes.io/managed-by" // marks our Service
	us          = "kloop"
	metricsPort = 9153
	perSlice    = 100 // endpoints, as upstream's controllers have it
)

// An end is the DNS server of a node, at an address of each family that the node has; "": it has none of that family.
type end struct {
	node, v4, v6 string
	port         int32
	ready        bool
}

// serves says whether the server is reached at all.
func (e end) serves() bool { return e.v4 != "" || e.v6 != "" }

func endOf(n *corev1.Node) end {
	port, err := strconv.ParseUint(n.Annotations[wellknown.DNSAnnotation], 10, 16)
	if err != nil || port == 0 || n.DeletionTimestamp != nil {
		return end{}
	}
	e := end{node: n.Name, port: int32(port)}
	for _, a := range n.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		switch {
		case a.Type != corev1.NodeInternalIP || err != nil || ip.IsLoopback():
		case ip.Is4():
			e.v4 = cmp.Or(e.v4, a.Address)
		default:
			e.v6 = cmp.Or(e.v6, a.Address)
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			e.ready = c.Status == corev1.ConditionTrue
		}
	}
	return e
}

// A todo lists the writes that are missing.
type todo struct {
	create, remove *corev1.Service
	tell           *corev1.Service // with what the ConfigMap coredns-custom adds
	make, change   []*discoveryv1.EndpointSlice
	drop           []*discoveryv1.EndpointSlice
}

// plan is pure: what is there against what should be. s is the Service of our name, whoever made it; custom says to nodes what the
// ConfigMap coredns-custom adds.
func plan(s *corev1.Service, have []*discoveryv1.EndpointSlice, ends []end, clusterIPs []netip.Addr, custom string) (d todo) {
	mine := s != nil && s.Labels[ours] == us && len(s.Spec.Selector) == 0 && s.DeletionTimestamp == nil
	switch {
	case s == nil && len(ends) > 0:
		d.create = service(clusterIPs)
		return d
	case mine && len(clusterIPs) == 0:
		d.remove = s
	case mine && s.Annotations[wellknown.DNSCustomAnnotation] != custom:
		d.tell = told(s, custom)
	}
	var want []*discoveryv1.EndpointSlice
	if mine && len(clusterIPs) > 0 {
		want = wanted(s, ends)
	}
	for _, w := range want {
		i := slices.IndexFunc(have, func(h *discoveryv1.EndpointSlice) bool { return h.Name == w.Name })
		switch {
		case i < 0:
			d.make = append(d.make, w)
		case have[i].AddressType != w.AddressType: // can't be changed: made anew by the next pass
			d.drop = append(d.drop, have[i])
		case !equality.Semantic.DeepEqual(have[i].Endpoints, w.Endpoints) || !equality.Semantic.DeepEqual(have[i].Ports, w.Ports):
			next := resource.Clone(have[i])
			next.Endpoints, next.Ports = w.Endpoints, w.Ports
			d.change = append(d.change, next)
		}
	}
	for _, h := range have {
		if !slices.ContainsFunc(want, func(w *discoveryv1.EndpointSlice) bool { return w.Name == h.Name }) {
			d.drop = append(d.drop, h)
		}
	}
	return d
}

func told(s *corev1.Service, custom string) *corev1.Service {
	next := resource.Clone(s)
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	if next.Annotations[wellknown.DNSCustomAnnotation] = custom; custom == "" {
		delete(next.Annotations, wellknown.DNSCustomAnnotation)
	}
	return next
}

// service is the Service as CoreDNS's manifests have it, but for the selector. Each node's pods are served by that node.
func service(clusterIPs []netip.Addr) *corev1.Service {
	var ips []string
	var families []corev1.IPFamily
	for _, a := range clusterIPs {
		f := corev1.IPv4Protocol
		if a.Is6() {
			f = corev1.IPv6Protocol
		}
		ips, families = append(ips, a.String()), append(families, f)
	}
	near := corev1.ServiceTrafficDistributionPreferSameNode
	policy := corev1.IPFamilyPolicySingleStack
	if len(ips) > 1 {
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	port := func(name string, proto corev1.Protocol, n int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Protocol: proto, Port: n, TargetPort: intstr.FromString(name)}
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name, Labels: map[string]string{"k8s-app": name,
			"kubernetes.io/cluster-service": "true",
			"kubernetes.io/name":            "CoreDNS", ours: us},
			Annotations: map[string]string{"prometheus.io/port": strconv.Itoa(metricsPort), "prometheus.io/scrape": "true"}},
		Spec: corev1.ServiceSpec{ClusterIP: ips[0], ClusterIPs: ips, IPFamilies: families, IPFamilyPolicy: &policy,
			TrafficDistribution: &near,
			Ports: []corev1.ServicePort{port("dns", corev1.ProtocolUDP, 53), port("dns-tcp", corev1.ProtocolTCP, 53), port("metrics",
				corev1.ProtocolTCP, metricsPort)}},
	}
}

// wanted are the slices: of each port and family in which there are endpoints, a bounded number in each.
func wanted(s *corev1.Service, ends []end) (list []*discoveryv1.EndpointSlice) {
	coldsort.Func(ends, func(a, b end) int { return strings.Compare(a.node, b.node) })
	count := map[string]int{}
	open := map[string]*discoveryv1.EndpointSlice{}
	put := func(e end, typ discoveryv1.AddressType, addr string) {
		if addr == "" {
			return
		}
		group := fmt.Sprintf("%s-%d", strings.ToLower(string(typ)), e.port)
		sl := open[group]
		if sl == nil || len(sl.Endpoints) == perSlice {
			sl = slice(s, fmt.Sprintf("%s-%s-%d", name, group, count[group]), typ, e.port)
			open[group], list = sl, append(list, sl)
			count[group]++
		}
		off := false
		sl.Endpoints = append(sl.Endpoints, discoveryv1.Endpoint{Addresses: []string{addr}, NodeName: &e.node,
			Conditions: discoveryv1.EndpointConditions{Ready: &e.ready, Serving: &e.ready, Terminating: &off},
			Hints:      &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: e.node}}}})
	}
	for _, e := range ends {
		put(e, discoveryv1.AddressTypeIPv4, e.v4)
		put(e, discoveryv1.AddressTypeIPv6, e.v6)
	}
	return list
}

func slice(s *corev1.Service, title string, typ discoveryv1.AddressType, dns int32) *discoveryv1.EndpointSlice {
	port := func(name string, proto corev1.Protocol, n int32) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Protocol: &proto, Port: &n}
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: title,
			Labels:          map[string]string{discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: manager, "k8s-app": name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, corev1.SchemeGroupVersion.WithKind("Service"))}},
		AddressType: typ,
		Ports: []discoveryv1.EndpointPort{port("dns", corev1.ProtocolUDP, dns), port("dns-tcp", corev1.ProtocolTCP, dns),
			port("metrics", corev1.ProtocolTCP, metricsPort)},
	}
}
