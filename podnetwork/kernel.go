package podnetwork

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/podnetwork/wireguard"
)

// A kernel is the network of one namespace, by netlink.
type kernel struct {
	h      *netlink.Handle
	log    *slog.Logger
	tunnel atomic.Int32 // index of the tunnel's link, for those who watch; 0: none
	knobs  map[string]bool

	// Of the encrypted link:
	wg      *wireguard.Conn // nil: not needed yet
	private wireguard.Key
	met     map[wireguard.Key]time.Time      // when the kernel last agreed with a peer on keys
	told    map[wireguard.Key]netip.AddrPort // where Nodes said that they are
}

// openKernel opens the network of this thread.
func openKernel(log *slog.Logger) (*kernel, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a socket to the kernel's routes: %w", err)
	}
	return &kernel{h: h, log: log, knobs: map[string]bool{}, told: map[wireguard.Key]netip.AddrPort{}}, nil
}

func (k *kernel) close() {
	k.h.Close()
	if k.wg != nil {
		k.wg.Close()
	}
}

// dump asks for a list again when it changed on the way, a few times.
func dump[T any](ask func() ([]T, error)) (list []T, err error) {
	for range 5 {
		if list, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return list, err
		}
	}
	return list, err
}

// link finds a link by its name; nil: there is none.
func (k *kernel) link(name string) (netlink.Link, error) {
	l, err := k.h.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil, nil
	}
	return l, err
}

// survey looks at the machine's network without ours.
func (k *kernel) survey(c census) (g ground, err error) {
	links, err := dump(k.h.LinkList)
	if err != nil {
		return g, fmt.Errorf("list the links: %w", err)
	}
	byIndex := map[int]*netlink.LinkAttrs{}
	for _, l := range links {
		byIndex[l.Attrs().Index] = l.Attrs()
	}
	if err := k.surveyOwn(c, byIndex, &g); err != nil {
		return g, err
	}
	g.ways = map[netip.Addr]way{}
	for _, m := range c.peers {
		for _, a := range m.addrs {
			if w, ok := k.wayTo(a, byIndex); ok {
				g.ways[a] = w
			}
		}
		if _, at, err := m.secret(false); err == nil && !g.ways[at.Addr()].known() {
			if w, ok := k.wayTo(at.Addr(), byIndex); ok {
				g.ways[at.Addr()] = w
			}
		}
	}
	return g, k.surveyRoutes(c, byIndex, &g)
}

// surveyOwn finds the link that has the node's address.
func (k *kernel) surveyOwn(c census, byIndex map[int]*netlink.LinkAttrs, g *ground) error {
	all, err := dump(func() ([]netlink.Addr, error) { return k.h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list the addresses: %w", err)
	}
	for _, a := range all {
		addr, ok := netip.AddrFromSlice(a.IP)
		if !ok || len(c.own.addrs) == 0 || addr.Unmap() != c.own.addrs[0] {
			continue
		}
		g.local = addr.Unmap()
		if l := byIndex[a.LinkIndex]; l != nil && l.Flags&net.FlagLoopback == 0 {
			g.mtu = l.MTU
		}
	}
	return nil
}

// wayTo asks the kernel how it would reach the address.
func (k *kernel) wayTo(a netip.Addr, byIndex map[int]*netlink.LinkAttrs) (way, bool) {
	list, err := k.h.RouteGet(a.AsSlice())
	if err != nil || len(list) == 0 {
		return way{}, false // no route: the tunnel waits for one
	}
	l := byIndex[list[0].LinkIndex]
	if l == nil || l.Flags&net.FlagLoopback != 0 || slices.Contains(links, l.Name) {
		return way{}, false
	}
	return way{link: l.Name, direct: len(list[0].Gw) == 0 && list[0].Via == nil, mtu: l.MTU}, true
}

// surveyRoutes finds the routes of others to the ranges of peers. What cni0 has is left over.
func (k *kernel) surveyRoutes(c census, byIndex map[int]*netlink.LinkAttrs, g *ground) error {
	g.foreign = map[netip.Prefix]bool{}
	ranges := map[netip.Prefix]bool{}
	for _, m := range c.peers {
		for _, p := range m.ranges {
			ranges[p] = true
		}
	}
	if len(ranges) == 0 {
		return nil
	}
	all, err := dump(func() ([]netlink.Route, error) {
		return k.h.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return fmt.Errorf("list the routes: %w", err)
	}
	for i := range all {
		p, ok := prefixOf(all[i].Dst)
		if l := byIndex[all[i].LinkIndex]; ok && ranges[p] && all[i].Protocol != Protocol && (l == nil || l.Name != Bridge) {
			g.foreign[p] = true
		}
	}
	return nil
}

// observe reads what is there of ours.
func (k *kernel) observe() (have state, err error) {
	have = state{addrs: map[netip.Prefix]bool{}, neighbours: map[netip.Addr]mac{}, forwarding: map[mac]netip.Addr{},
		routes: map[netip.Prefix]route{}, gateways: map[netip.Prefix]bool{}}
	l, err := k.link(Tunnel)
	if err != nil {
		return have, fmt.Errorf("look for the link %s: %w", Tunnel, err)
	}
	k.tunnel.Store(0)
	if v, ok := l.(*netlink.Vxlan); ok && v.VxlanId == tunnelID && v.Port == TunnelPort && !v.Learning {
		k.tunnel.Store(int32(v.Index))
		local, _ := netip.AddrFromSlice(v.SrcAddr) // none is the zero address
		have.tunnel = &tunnel{local: local.Unmap(), mtu: v.MTU}
		copy(have.tunnel.mac[:], v.HardwareAddr)
		if err := k.observeTunnel(v, &have); err != nil {
			return have, err
		}
	}
	if have.secret, err = k.observeSecret(); err != nil {
		return have, err
	}
	routes, err := dump(func() ([]netlink.Route, error) {
		return k.h.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN, Protocol: Protocol},
			netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return have, fmt.Errorf("list kloop's routes: %w", err)
	}
	names := map[int]string{}
	for i := range routes {
		r := &routes[i]
		p, ok := prefixOf(r.Dst)
		if !ok {
			continue
		}
		if names[r.LinkIndex] == "" {
			if l, err := k.h.LinkByIndex(r.LinkIndex); err == nil {
				names[r.LinkIndex] = l.Attrs().Name
			}
		}
		via, _ := netip.AddrFromSlice(r.Gw) // none is the zero address
		src, _ := netip.AddrFromSlice(r.Src)
		have.routes[p] = route{link: names[r.LinkIndex], via: via.Unmap(), src: src.Unmap()}
	}
	return have, nil
}

// observeTunnel reads what is on the tunnel.
func (k *kernel) observeTunnel(v *netlink.Vxlan, have *state) error {
	addrs, err := k.addresses(v)
	if err != nil {
		return err
	}
	have.addrs = addrs
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6, unix.AF_BRIDGE} {
		list, err := dump(func() ([]netlink.Neigh, error) {
			return k.h.NeighListExecute(netlink.Ndmsg{Family: uint8(family), Index: uint32(v.Index)})
		})
		if err != nil {
			return fmt.Errorf("list the neighbours on %s: %w", Tunnel, err)
		}
		for _, n := range list {
			addr, ok := netip.AddrFromSlice(n.IP)
			if !ok || n.State&netlink.NUD_PERMANENT == 0 || len(n.HardwareAddr) != len(mac{}) {
				continue
			}
			if family == unix.AF_BRIDGE {
				have.forwarding[mac(n.HardwareAddr)] = addr.Unmap()
			} else {
				have.neighbours[addr.Unmap()] = mac(n.HardwareAddr)
			}
		}
	}
	return nil
}

// addresses are those of a link that it was given.
func (k *kernel) addresses(l netlink.Link) (map[netip.Prefix]bool, error) {
	addrs, err := dump(func() ([]netlink.Addr, error) { return k.h.AddrList(l, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", l.Attrs().Name, err)
	}
	all := map[netip.Prefix]bool{}
	for _, a := range addrs {
		if p, ok := prefixOf(a.IPNet); ok && !p.Addr().IsLinkLocalUnicast() {
			all[p] = true
		}
	}
	return all, nil
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones), ok
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
