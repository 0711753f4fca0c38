package proxy

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// flows judges the UDP flows that the kernel's conntrack remembers. A flow stays where its first packet went for as long as its
// client keeps sending: to an endpoint that is gone, or to nowhere, if it began before the service had endpoints.
type flows struct{ book *book }

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
		return by.Addr() != to.ip && slices.ContainsFunc(f.book.here.services, func(p netip.Prefix) bool { return p.Contains(to.ip) })
	}
	for _, s := range rivals {
		owns := f.book.owner(s)
		for i := range s.claims {
			c := &s.claims[i]
			if c.at != to || !owns(c) {
				continue
			}
			if c.way.kind == refuse && c.kind == nodePort {
				return false // a program of this machine may have the port
			}
			return !slices.ContainsFunc(s.lists, func(l list) bool { return l.id&^1 == c.list && slices.Contains(l.ends, by) })
		}
	}
	return false
}
