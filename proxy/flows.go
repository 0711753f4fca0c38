package proxy

import (
	"encoding/binary"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/ipvs"
)

// flows judges the UDP flows that the kernel's conntrack remembers. A flow stays where its first packet went for as long as its
// client keeps sending: to an endpoint that is gone, or to nowhere, if it began before the service had endpoints.
type flows struct{ book *book }

// A past holds where flows of UDP to our addresses may lead since before their services changed or went. Nothing else tells a flow of
// theirs from one that somebody else, a hostPort for example, leads elsewhere from the same address.
type past map[address][][]netip.AddrPort

// add notes a service as it was. There need not be one.
func (p past) add(s *service) {
	if !s.udp() {
		return
	}
	for i := range s.claims {
		c := &s.claims[i]
		for _, l := range s.lists {
			if c.at.protocol == unix.IPPROTO_UDP && l.id&^1 == c.list {
				p[c.at] = append(p[c.at], l.ends)
			}
		}
	}
}

// read notes what the kernel holds: it is of a proxy that ran before this one.
func (p past) read(claims, ends map[string]string) {
	lists := map[uint64][]netip.AddrPort{}
	for key, end := range ends {
		if e, ok := readEndpoint(end); ok && len(key) > 8 {
			id := binary.BigEndian.Uint64([]byte(key)) &^ 1
			lists[id] = append(lists[id], e)
		}
	}
	for key, data := range claims {
		if at, ok := readAddress(key); ok && at.protocol == unix.IPPROTO_UDP && len(data) > 8 {
			p[at] = append(p[at], lists[binary.BigEndian.Uint64([]byte(data))])
		}
	}
}

// serve notes the virtual servers that a proxy before this one made.
func (p past) serve(servers map[ipvs.Key]*held) {
	for k, h := range servers {
		if k.Mark == 0 && k.Protocol == unix.IPPROTO_UDP {
			at := address{k.Addr, k.Protocol, k.Port}
			p[at] = append(p[at], slices.Collect(maps.Keys(h.ends)))
		}
	}
}

// led says whether we led flows to an address to an endpoint.
func (p past) led(to address, by netip.AddrPort) bool {
	return by != netip.AddrPortFrom(to.ip, to.port) && slices.ContainsFunc(p[to], func(ends []netip.AddrPort) bool {
		return slices.Contains(ends, by)
	})
}

// clear forgets the flows that lead elsewhere than they would if they began now. It compares conntrack itself with the book, so it
// also finds what happened while no proxy ran. TCP notices by itself.
func (f flows) clear() error {
	var errs []error
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, f)
		if !errors.Is(err, netlink.ErrDumpInterrupted) { // the rest was looked at
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// MatchConntrackFlow says whether a flow is to be forgotten.
func (f flows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	const udp = unix.IPPROTO_UDP
	if flow.Forward.Protocol != udp {
		return false
	}
	to, ok := netip.AddrFromSlice(flow.Forward.DstIP)
	from, ok2 := netip.AddrFromSlice(flow.Reverse.SrcIP)
	if !ok || !ok2 {
		return false
	}
	return f.stale(address{to.Unmap(), udp, flow.Forward.DstPort}, netip.AddrPortFrom(from.Unmap(), flow.Reverse.SrcPort))
}

// stale says whether a flow to an address must not be answered by the endpoint that answers.
func (f flows) stale(to address, by netip.AddrPort) bool {
	rivals := f.book.claims[to]
	if len(rivals) == 0 {
		// The service is gone. Outside the range of cluster IPs the address may be anybody's.
		inRange := func(p netip.Prefix) bool { return p.Contains(to.ip) }
		return f.book.past.led(to, by) || by.Addr() != to.ip && slices.ContainsFunc(f.book.here.services, inRange)
	}
	for _, s := range rivals {
		owns := f.book.owner(s)
		for i := range s.claims {
			c := &s.claims[i]
			if c.at != to || !owns(c) {
				continue
			}
			if c.way.kind == refuse && c.kind == nodePort {
				return f.book.past.led(to, by) // a program of this machine may have the port, or a pod's hostPort
			}
			return !slices.ContainsFunc(s.lists, func(l list) bool { return l.id&^1 == c.list && slices.Contains(l.ends, by) })
		}
	}
	return false
}
