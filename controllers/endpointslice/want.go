package endpointslice

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kloop-dev/kloop/controllers/internal/backends"
	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A group is the endpoints of one address family that serve the same ports.
type group struct {
	family    discoveryv1.AddressType
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
	pods      []*corev1.Pod // of the endpoints, in the same order
}

// families lists the address families that a service is published in.
func families(s *corev1.Service) (list []discoveryv1.AddressType) {
	for _, f := range s.Spec.IPFamilies {
		list = append(list, discoveryv1.AddressType(f))
	}
	if len(list) > 0 {
		return list
	}
	if ip, err := netip.ParseAddr(s.Spec.ClusterIP); err == nil {
		if ip.Is4() {
			return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4}
		}
		return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv6}
	}
	return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}
}

// wanted sorts the pods into groups; a family without any pod has one empty group without ports.
func wanted(s *corev1.Service, list []*corev1.Pod, zoneOf func(node string) string) (groups []*group) {
	plain := samePorts(s)
	for _, family := range families(s) {
		byPorts, first := map[string]*group{}, len(groups)
		for _, p := range list {
			ips := addresses(p, family)
			if len(ips) == 0 {
				continue
			}
			key := ""
			if !plain {
				key = portsKey(portsOf(s, p))
			}
			g := byPorts[key]
			if g == nil {
				g = &group{family: family, ports: portsOf(s, p)}
				byPorts[key] = g
				groups = append(groups, g)
			}
			g.endpoints = append(g.endpoints, endpoint(s, p, ips, zoneOf))
			g.pods = append(g.pods, p)
		}
		if len(groups) == first {
			groups = append(groups, &group{family: family})
		}
	}
	return groups
}

// samePorts says that every pod serves the same ports: none goes by name.
func samePorts(s *corev1.Service) bool {
	for i := range s.Spec.Ports {
		if s.Spec.Ports[i].TargetPort.StrVal != "" {
			return false
		}
	}
	return true
}

func portsOf(s *corev1.Service, p *corev1.Pod) (list []discoveryv1.EndpointPort) {
	for i := range s.Spec.Ports {
		sp := &s.Spec.Ports[i]
		if n, ok := backends.Port(p, sp); ok {
			list = append(list, discoveryv1.EndpointPort{Name: &sp.Name, Port: &n, Protocol: &sp.Protocol, AppProtocol: sp.AppProtocol})
		}
	}
	coldsort.StableFunc(list, func(a, b discoveryv1.EndpointPort) int { return strings.Compare(orderOf(&a), orderOf(&b)) })
	return list
}

// orderOf gives a port its place among others: by upstream's hash.
func orderOf(p *discoveryv1.EndpointPort) string {
	return backends.PortHash("(v1.EndpointPort){Name:(*string)%s Protocol:(*v1.Protocol)%s Port:(*int32)%d AppProtocol:(*string)%s}",
		*p.Name, *p.Protocol, *p.Port, backends.OrNil(p.AppProtocol))
}

// portsKey is equal for equal lists of ports, whatever their order.
func portsKey(list []discoveryv1.EndpointPort) string {
	keys := make([]string, 0, len(list))
	for _, p := range list {
		parts := []string{"", "", "", ""}
		if p.Name != nil {
			parts[0] = *p.Name
		}
		if p.Protocol != nil {
			parts[1] = string(*p.Protocol)
		}
		if p.Port != nil {
			parts[2] = strconv.Itoa(int(*p.Port))
		}
		if p.AppProtocol != nil {
			parts[3] = *p.AppProtocol
		}
		keys = append(keys, strings.Join(parts, "|"))
	}
	slices.Sort(keys)
	return strings.Join(keys, ",")
}

func addresses(p *corev1.Pod, family discoveryv1.AddressType) (list []string) {
	for _, ip := range backends.IPs(p) {
		if strings.Contains(ip, ":") == (family == discoveryv1.AddressTypeIPv6) {
			list = append(list, ip)
		}
	}
	return list
}

func endpoint(s *corev1.Service, p *corev1.Pod, ips []string, zoneOf func(string) string) discoveryv1.Endpoint {
	serving, terminating := pods.Ready(p), p.DeletionTimestamp != nil
	ready := s.Spec.PublishNotReadyAddresses || serving && !terminating
	e := discoveryv1.Endpoint{Addresses: ips,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
	if p.Spec.NodeName != "" {
		e.NodeName = &p.Spec.NodeName
		if zone := zoneOf(p.Spec.NodeName); zone != "" {
			e.Zone = &zone
		}
	}
	if h := backends.Hostname(p, s); h != "" {
		e.Hostname = &h
	}
	if ready {
		e.Hints = hints(s, &e)
	}
	return e
}

// hints tell proxies where an endpoint is meant to be used, when the service asks for nearness.
func hints(s *corev1.Service, e *discoveryv1.Endpoint) *discoveryv1.EndpointHints {
	if s.Spec.TrafficDistribution == nil || automatic(s) {
		return nil
	}
	h := &discoveryv1.EndpointHints{}
	switch *s.Spec.TrafficDistribution {
	case corev1.ServiceTrafficDistributionPreferSameNode:
		if e.NodeName != nil {
			h.ForNodes = []discoveryv1.ForNode{{Name: *e.NodeName}}
		}
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone:
	default:
		return nil
	}
	if e.Zone != nil {
		h.ForZones = []discoveryv1.ForZone{{Name: *e.Zone}}
	}
	if h.ForZones == nil && h.ForNodes == nil {
		return nil
	}
	return h
}

// labelsOf are the service's labels and those that say whose the slice is.
func labelsOf(s *corev1.Service) map[string]string {
	l := maps.Clone(s.Labels)
	if l == nil {
		l = map[string]string{}
	}
	delete(l, corev1.IsHeadlessService)
	if backends.Headless(s) {
		l[corev1.IsHeadlessService] = ""
	}
	l[discoveryv1.LabelServiceName], l[discoveryv1.LabelManagedBy] = s.Name, managedBy
	return l
}
