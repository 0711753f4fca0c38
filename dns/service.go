package dns

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/resource"
)

// A service holds the records of one Service. It never changes once made.
type service struct {
	ns, name string
	headless bool
	external string       // target of an ExternalName Service, without a dot at its end
	addrs    []netip.Addr // cluster IPs
	ports    []port       // of a Service with cluster IPs: the Service's ports
	ends     []endpoint
}

// A port is a port of a Service or of an endpoint; one without a name is in SRV records of the whole Service alone.
type port struct {
	name, protocol string // protocol in small letters
	number         uint16
}

// An endpoint is one address behind a Service, with the label that it has below the Service's name.
type endpoint struct {
	label string // the pod's hostname; "": the address with dashes, as CoreDNS has it
	addr  netip.Addr
	ports []port
	told  []port // those of them that an address before it, of the same label, has too: one SRV record is for both
}

// newService is pure; nil when the Service has no records (yet).
func newService(s *corev1.Service, slicesOf iter.Seq[resource.Object]) *service {
	d := &service{ns: s.Namespace, name: s.Name}
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		d.external = strings.ToLower(strings.TrimSuffix(s.Spec.ExternalName, "."))
		return d
	case s.Spec.ClusterIP == "":
		return nil
	case s.Spec.ClusterIP == corev1.ClusterIPNone:
		d.headless = true
	default:
		d.addrs = clusterIPs(s)
		for _, p := range s.Spec.Ports {
			d.ports = append(d.ports, port{strings.ToLower(p.Name), protocol(p.Protocol), uint16(p.Port)})
		}
	}
	for obj := range slicesOf {
		d.add(obj.(*discoveryv1.EndpointSlice))
	}
	coldsort.Func(d.ends, func(a, b endpoint) int {
		if c := a.addr.Compare(b.addr); c != 0 {
			return c
		}
		return strings.Compare(a.label, b.label)
	})
	d.merge()
	return d
}

func clusterIPs(s *corev1.Service) (list []netip.Addr) {
	ips := s.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{s.Spec.ClusterIP}
	}
	for _, text := range ips {
		if a, err := netip.ParseAddr(text); err == nil {
			list = append(list, a)
		}
	}
	return list
}

// add takes the ready endpoints of a slice. Those that publishNotReadyAddresses wants are ready in their slices already.
func (d *service) add(s *discoveryv1.EndpointSlice) {
	if s.AddressType != discoveryv1.AddressTypeIPv4 && s.AddressType != discoveryv1.AddressTypeIPv6 {
		return
	}
	var ports []port
	for _, p := range s.Ports {
		if p.Port != nil {
			ports = append(ports, port{strings.ToLower(deref(p.Name)), protocol(deref(p.Protocol)), uint16(*p.Port)})
		}
	}
	d.ends = slices.Grow(d.ends, len(s.Endpoints)) // as many as are ready, as a rule
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		for _, text := range e.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				d.ends = append(d.ends, endpoint{label: strings.ToLower(deref(e.Hostname)), addr: a.Unmap(), ports: ports})
			}
		}
	}
}

// merge joins what several slices say of one endpoint: it may be in two while it moves, or have its ports in different ones.
func (d *service) merge() {
	out := d.ends[:0]
	for _, e := range d.ends {
		if n := len(out); n > 0 && out[n-1].addr == e.addr && out[n-1].label == e.label {
			for _, p := range e.ports {
				if !slices.Contains(out[n-1].ports, p) {
					out[n-1].ports = append(slices.Clip(out[n-1].ports), p)
				}
			}
			continue
		}
		out = append(out, e)
	}
	d.ends = out
	d.twins()
}

// twins finds the ports that a host has at several of its addresses, as pods of two families have: records of a name don't repeat.
func (d *service) twins() {
	var of map[string][]port
	for i := range d.ends {
		e := &d.ends[i]
		if e.label == "" || len(d.ends) == 1 {
			continue
		}
		before := of[e.label]
		for _, p := range e.ports {
			if slices.Contains(before, p) {
				e.told = append(e.told, p)
			}
		}
		if of == nil {
			of = make(map[string][]port, len(d.ends))
		}
		if before == nil {
			of[e.label] = slices.Clip(e.ports)
		} else {
			of[e.label] = append(before, e.ports...)
		}
	}
}

// name is the endpoint's label below the Service's name.
func (e *endpoint) name() string {
	if e.label != "" {
		return e.label
	}
	return dashed(e.addr)
}

// undashed is the other way of dashed; what is none is no valid address.
func undashed(label string) netip.Addr {
	if strings.Count(label, "-") < 2 {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", "."))
	if err != nil {
		a, _ = netip.ParseAddr(strings.ReplaceAll(label, "-", ":"))
	}
	return a
}

// dashed is an address as a label: 10-0-0-1, fd00--1.
func dashed(a netip.Addr) string {
	var room [45]byte
	text := a.Unmap().AppendTo(room[:0])
	for i, c := range text {
		if c == '.' || c == ':' {
			text[i] = '-'
		}
	}
	return string(text)
}

func protocol(p corev1.Protocol) string {
	if p == "" {
		return "tcp"
	}
	return strings.ToLower(string(p))
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
