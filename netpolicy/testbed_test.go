package netpolicy

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/internal/testpolicy"
	"github.com/kloop-dev/kloop/test/netspace"
)

// A machine is a node of the testbed with its pods.
type machine struct {
	netspace.Space
	addrs []netip.Addr // on the LAN: IPv4, IPv6
	pods  map[netip.Addr]netspace.Space
}

// newTestbed makes one machine for each node of the snapshot, on one LAN, and the pods of each on its bridge. A pod reaches those beside it
// over the bridge and all others by its node, which routes.
func newTestbed(t *testing.T, s testpolicy.Snapshot, nodes int) (list []*machine) {
	lan := netspace.New(t)
	lan.Do(t, func() error { return bridge("lan") })
	for n := range nodes {
		m := &machine{Space: netspace.New(t), pods: map[netip.Addr]netspace.Space{},
			addrs: []netip.Addr{addr(fmt.Sprintf("10.9.0.%d", n+1)), addr(fmt.Sprintf("fd09::%d", n+1))}}
		list = append(list, m)
		m.Do(t, func() error { return bridge("br0") })
		m.Do(t, routing)
		wire(t, m.Space, "up", lan, fmt.Sprint("n", n), "lan")
		m.Do(t, func() error {
			return join(give("up", prefix(m.addrs[0], 24), prefix(m.addrs[1], 64)), give("br0", prefix(addr(fmt.Sprintf("10.1.255.%d", n)), 32),
				prefix(addr(fmt.Sprintf("fd01::ffff:%d", n)), 128)))
		})
	}
	m := NewModel(s, nil, nil)
	for i, p := range m.pods {
		at := list[int(p.Spec.NodeName[1]-'0')]
		in := netspace.New(t)
		wire(t, in, "eth0", at.Space, fmt.Sprint("p", i), "br0")
		in.Do(t, func() error { return give("eth0", prefix(p.addrs[0], 32), prefix(p.addrs[1], 128)) })
		for n, node := range list {
			node.Do(t, func() error { return route(p.addrs, "br0", "up", at == node, at.addrs) })
			_ = n
		}
		for _, a := range p.addrs {
			at.pods[a] = in
		}
	}
	for n, at := range list {
		for a, in := range at.pods {
			in.Do(t, func() error { return leave(a, at, n) })
		}
	}
	return list
}

// leave gives a pod its routes: to the pods beside it directly, elsewhere by the node.
func leave(own netip.Addr, at *machine, n int) error {
	gateway, all := addr(fmt.Sprintf("10.1.255.%d", n)), netip.MustParsePrefix("0.0.0.0/0")
	if own.Is6() {
		gateway, all = addr(fmt.Sprintf("fd01::ffff:%d", n)), netip.MustParsePrefix("::/0")
	}
	err := direct("eth0", gateway)
	for a := range at.pods {
		if a != own && a.Is6() == own.Is6() {
			err = join(err, direct("eth0", a))
		}
	}
	return join(err, via("eth0", all, gateway))
}

// route leads a node to a pod: over its bridge, or by the pod's node.
func route(addrs []netip.Addr, bridge, up string, here bool, node []netip.Addr) (err error) {
	for i, a := range addrs {
		if here {
			err = join(err, direct(bridge, a))
		} else {
			err = join(err, via(up, prefix(a, a.BitLen()), node[i]))
		}
	}
	return err
}

func join(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

func prefix(a netip.Addr, bits int) netip.Prefix { return netip.PrefixFrom(a, bits) }

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func bridge(name string) error {
	b := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	return join(netlink.LinkAdd(b), netlink.LinkSetUp(b))
}

// routing makes a namespace one that forwards, and shows its rules what crosses its bridge.
func routing() error {
	return join(os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644),
		os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0o644), prepareKernel())
}

// wire joins two namespaces by a cable; the far end is plugged into a bridge.
func wire(t *testing.T, a netspace.Space, name string, b netspace.Space, far, bridge string) {
	t.Helper()
	b.Do(t, func() error {
		v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: far}, PeerName: name, PeerNamespace: netlink.NsFd(int(a))}
		if err := netlink.LinkAdd(v); err != nil {
			return err
		}
		br, err := netlink.LinkByName(bridge)
		if err != nil {
			return err
		}
		return join(netlink.LinkSetMaster(v, br), netlink.LinkSetUp(v))
	})
	a.Do(t, func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	})
}

func give(link string, list ...netip.Prefix) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	for _, p := range list {
		a := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(l, a); err != nil {
			return err
		}
	}
	return nil
}

func direct(link string, to netip.Addr) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	return netlink.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(prefix(to, to.BitLen())), Scope: netlink.SCOPE_LINK})
}

func via(link string, to netip.Prefix, gateway netip.Addr) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	return netlink.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(to), Gw: gateway.AsSlice()})
}

func (p *pod) String() string { return p.Namespace + "/" + p.Name }
