package proxy

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// An endpoint is one address of one port.
type endpoint struct {
	at      netip.AddrPort
	node    string
	ready   bool
	serving bool // on its way out, but still answering
	zones   []string
	nodes   []string // for whom it is hinted
}

// portEndpoints returns the endpoints of one port in one family, in order, each once: while an endpoint moves from one slice to
// another it is in both.
func portEndpoints(slicesOf []*discoveryv1.EndpointSlice, port string, protocol corev1.Protocol, v6 bool) (list []endpoint) {
	family := discoveryv1.AddressTypeIPv4
	if v6 {
		family = discoveryv1.AddressTypeIPv6
	}
	for _, s := range slicesOf {
		if s.AddressType != family {
			continue
		}
		for _, p := range s.Ports {
			if p.Port == nil || deref(p.Name) != port || proto(deref(p.Protocol)) != protocol {
				continue
			}
			list = slices.Grow(list, len(s.Endpoints))
			for i := range s.Endpoints {
				if e, ok := newEndpoint(&s.Endpoints[i], uint16(*p.Port), v6); ok {
					list = append(list, e)
				}
			}
		}
	}
	coldsort.Func(list, func(a, b endpoint) int {
		return cmp.Or(a.at.Compare(b.at), -compareBool(a.ready, b.ready), -compareBool(a.serving, b.serving))
	})
	return slices.CompactFunc(list, func(a, b endpoint) bool { return a.at == b.at })
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func newEndpoint(e *discoveryv1.Endpoint, port uint16, v6 bool) (endpoint, bool) {
	if len(e.Addresses) == 0 {
		return endpoint{}, false
	}
	addr, err := netip.ParseAddr(e.Addresses[0])
	if err != nil || addr.Unmap().Is6() != v6 {
		return endpoint{}, false
	}
	c := e.Conditions
	out := endpoint{at: netip.AddrPortFrom(addr.Unmap(), port), node: deref(e.NodeName), ready: c.Ready == nil || *c.Ready,
		serving: (c.Serving == nil || *c.Serving) && c.Terminating != nil && *c.Terminating}
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			out.zones = append(out.zones, z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			out.nodes = append(out.nodes, n.Name)
		}
	}
	return out, true
}

// everywhere picks the endpoints of the policy Cluster: the ready ones, fewer if all of them carry hints and some are for this
// node or its zone; when none is ready those that are ending but still serve (KEP-1669).
func everywhere(all []endpoint, h *here) []endpoint {
	ready := where(all, func(e *endpoint) bool { return e.ready })
	if len(ready) == 0 {
		return where(all, func(e *endpoint) bool { return e.serving })
	}
	for _, hinted := range []struct {
		hints func(*endpoint) []string
		mine  string
	}{
		{func(e *endpoint) []string { return e.nodes }, h.node},
		{func(e *endpoint) []string { return e.zones }, h.zone},
	} {
		near := where(ready, func(e *endpoint) bool { return slices.Contains(hinted.hints(e), hinted.mine) })
		without := where(ready, func(e *endpoint) bool { return len(hinted.hints(e)) == 0 })
		if hinted.mine != "" && len(near) > 0 && len(without) == 0 {
			return near
		}
	}
	return ready
}

// onNode picks the endpoints of the policy Local. Hints don't count there.
func onNode(all []endpoint, node string) []endpoint {
	if list := where(all, func(e *endpoint) bool { return e.ready && e.node == node }); len(list) > 0 {
		return list
	}
	return where(all, func(e *endpoint) bool { return e.serving && e.node == node })
}

// where picks from a list that nobody changes: mostly it is all of it.
func where(all []endpoint, ok func(*endpoint) bool) (list []endpoint) {
	same := 0
	for same < len(all) && ok(&all[same]) {
		same++
	}
	if same == len(all) {
		return all
	}
	list = slices.Clone(all[:same])
	for i := same + 1; i < len(all); i++ {
		if ok(&all[i]) {
			list = append(list, all[i])
		}
	}
	return list
}

func targets(list []endpoint) []netip.AddrPort {
	if len(list) == 0 {
		return nil
	}
	out := make([]netip.AddrPort, len(list))
	for i := range list {
		out[i] = list[i].at
	}
	return out
}

func proto(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
