package podnetwork

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"

	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/podnetwork/wireguard"
)

// The tunnel between machines. Its number and port are kloop's own, so that it stands beside flannel's and Cilium's.
const (
	Tunnel     = wellknown.PodTunnel // the link's name
	tunnelID   = 88
	TunnelPort = 8488 // UDP
	Protocol   = 88   // of the routes that are ours
	Bridge     = wellknown.PodBridge
)

// links are the pod network's own.
var links = []string{Tunnel, Secret, Bridge}

// What a VXLAN tunnel takes of a packet: the inner Ethernet header, those of VXLAN, UDP and IP.
const (
	overhead4 = 50
	overhead6 = 70
)

// Bounds of the packets that pods send.
const (
	usualMTU = 1500
	leastMTU = 576 // what every machine must take
)

// A way leads to an address: the kernel would send a packet there so now.
type way struct {
	link   string
	direct bool // without a router in between
	mtu    int
}

func (w way) known() bool { return w.link != "" }

// A ground holds what a plan depends on beside the Nodes: the machine's network without ours.
type ground struct {
	ways    map[netip.Addr]way // to the addresses of peers; those that can't be reached are missing
	local   netip.Addr         // the own address, if a link has it
	public  wireguard.Key      // of this node
	mtu     int                // of that link; 0: unknown
	foreign map[netip.Prefix]bool
}

// A state is the pod network as the kernel has it, or should.
type state struct {
	tunnel     *tunnel // nil: none
	addrs      map[netip.Prefix]bool
	neighbours map[netip.Addr]mac
	forwarding map[mac]netip.Addr // where the machine with this address in the tunnel is
	routes     map[netip.Prefix]route
	secret     *secret // nil: none

	gateways map[netip.Prefix]bool // addresses that the bridge may have
	mtu      int                   // of pods
}

type tunnel struct {
	mac   mac
	local netip.Addr // sender of what leaves; zero: the kernel chooses
	mtu   int
}

type mac [6]byte

func (m mac) String() string { return net.HardwareAddr(m[:]).String() }

// A route leads to a range of pods.
type route struct {
	link string
	via  netip.Addr
	src  netip.Addr // of packets that this machine itself sends; zero: the kernel chooses
}

// macOf is the address of a node in the tunnel. It follows from the name, so that nobody has to tell it; the bit of addresses that nobody
// registers is set.
func macOf(node string) (m mac) {
	sum := sha256.Sum256([]byte("kloop tunnel " + node))
	copy(m[:], sum[:])
	m[0] = m[0]&^3 | 2
	return m
}

// plan is pure. notes tell what is odd.
func plan(c census, g ground, mode string) (want state, notes []string) {
	want = state{addrs: map[netip.Prefix]bool{}, neighbours: map[netip.Addr]mac{}, forwarding: map[mac]netip.Addr{},
		routes: map[netip.Prefix]route{}, gateways: map[netip.Prefix]bool{}}
	for _, p := range c.own.ranges {
		want.gateways[netip.PrefixFrom(p.Addr().Next(), p.Bits())] = true
	}
	notes = c.notes
	v6 := len(c.own.addrs) > 0 && c.own.addrs[0].Is6()
	if mode == ModeWireGuard {
		return planSecret(c, g, want, v6)
	}
	want.mtu = podMTU(c, g, mode, v6)
	if len(c.peers) > 0 && mode != ModeRoutes {
		want.tunnel = &tunnel{mac: macOf(c.own.name), local: g.local, mtu: want.mtu}
		for _, p := range c.own.ranges {
			want.addrs[netip.PrefixFrom(p.Addr(), p.Addr().BitLen())] = true
		}
	}
	for _, m := range c.peers {
		at, ok := m.address(v6)
		if !ok {
			continue // it registers just now
		}
		for _, p := range m.ranges {
			next, _ := m.address(p.Addr().Is6()) // without one there is no way to it
			w := g.ways[next]
			plain := w.direct && mode != ModeVXLAN
			switch {
			case g.foreign[p]:
				notes = append(notes, fmt.Sprintf("there is a route to %s, the pods of node %s, that is not kloop's: it stays", p, m.name))
			case plain:
				want.routes[p] = route{link: w.link, via: next}
			case mode == ModeRoutes:
				notes = append(notes,
					fmt.Sprintf("node %s at %s is not on one link with this one, and network.mode is %s: its pods at %s are "+
						"not reached", m.name, at, mode, p))
			default:
				want.forwarding[macOf(m.name)] = at
				want.neighbours[p.Addr()] = macOf(m.name)
				want.routes[p] = through(p, c.own)
			}
		}
	}
	return want, notes
}

// through is the route to a range in the tunnel, where the range's first address stands for its node. Packets of this machine itself go
// with the first address of its own range, so that the answer comes back through the tunnel.
func through(p netip.Prefix, own machine) route {
	r := route{link: Tunnel, via: p.Addr()}
	for _, o := range own.ranges {
		if o.Addr().Is4() == p.Addr().Is4() {
			r.src = o.Addr()
		}
	}
	return r
}

// address is the one at which the machine is reached, of the family that this one's own is of.
func (m machine) address(v6 bool) (netip.Addr, bool) {
	for _, a := range m.addrs {
		if a.Is6() == v6 {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// podMTU is the size of pods' packets: what fits into the narrowest link to a peer, with room for the tunnel whether or not it is used
// now. So pods that run keep the right size when a machine behind a router joins.
func podMTU(c census, g ground, mode string, v6 bool) int {
	var ends []netip.Addr
	for _, m := range c.peers {
		if at, ok := m.address(v6); ok {
			ends = append(ends, at)
		}
	}
	mtu := narrowest(g, ends)
	switch {
	case mode == ModeRoutes:
	case v6:
		mtu -= overhead6
	default:
		mtu -= overhead4
	}
	return max(mtu, leastMTU)
}

// narrowest is the size of packets that the own link takes and those to the addresses.
func narrowest(g ground, ends []netip.Addr) int {
	mtu := g.mtu
	for _, at := range ends {
		if w, known := g.ways[at]; known && w.mtu > 0 {
			mtu = min(mtu, w.mtu)
		}
	}
	if mtu <= 0 {
		return usualMTU
	}
	return mtu
}
