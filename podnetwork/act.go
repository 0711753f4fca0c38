package podnetwork

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/forwarding"
)

// bring makes the kernel have what is wanted: the link, what is on it, then routes, for a route to a neighbour that nobody knows loses
// packets; and what is too much the other way round.
func (k *kernel) bring(want state) error {
	if err := k.prepare(want); err != nil {
		return err
	}
	if err := k.mendBridge(want); err != nil {
		return err
	}
	have, err := k.observe()
	if err != nil {
		return err
	}
	if want.tunnel == nil && want.secret == nil && len(have.routes) == 0 && len(want.routes) == 0 {
		return errors.Join(k.drop(Tunnel), k.drop(Secret))
	}
	var errs []error
	do := func(what any, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", what, err))
		}
	}
	on, err := k.bringTunnel(want, &have)
	if err != nil { // plain routes need none
		errs = append(errs, err)
		want.routes = maps.Clone(want.routes)
		maps.DeleteFunc(want.routes, func(_ netip.Prefix, r route) bool { return r.link == Tunnel })
	}
	sealed, err := k.bringSecret(want, &have)
	if err != nil {
		errs, want.routes = append(errs, err), nil
	}
	if on != nil {
		k.fill(on, want, have, do)
	}
	if sealed != nil {
		k.fillSecret(sealed, want, have, do)
	}
	k.bringRoutes(want, have, do)
	if on != nil {
		k.thin(on, want, have, do)
	}
	if sealed != nil {
		k.thinSecret(sealed, want, have, do)
	}
	if want.tunnel == nil {
		errs = append(errs, k.drop(Tunnel))
	}
	if want.secret == nil {
		errs = append(errs, k.drop(Secret))
	}
	if len(errs) > 3 {
		errs = append(errs[:3], fmt.Errorf("and %d more", len(errs)-3))
	}
	return errors.Join(errs...)
}

// bringTunnel makes the link, or mends it. have loses what went with an old link.
func (k *kernel) bringTunnel(want state, have *state) (netlink.Link, error) {
	if want.tunnel == nil {
		return nil, nil
	}
	if have.tunnel == nil || have.tunnel.local != want.tunnel.local {
		if err := k.drop(Tunnel); err != nil {
			return nil, err
		}
		v := &netlink.Vxlan{LinkAttrs: netlink.NewLinkAttrs(), VxlanId: tunnelID, Port: TunnelPort, Learning: false}
		v.Name, v.MTU, v.HardwareAddr = Tunnel, want.tunnel.mtu, want.tunnel.mac[:]
		if want.tunnel.local.IsValid() {
			v.SrcAddr = want.tunnel.local.AsSlice()
		}
		if err := k.h.LinkAdd(v); err != nil {
			return nil, fmt.Errorf("make the VXLAN link %s: %w", Tunnel, err)
		}
		lost := state{addrs: map[netip.Prefix]bool{}, neighbours: map[netip.Addr]mac{}, forwarding: map[mac]netip.Addr{}, routes: have.routes,
			secret: have.secret}
		maps.DeleteFunc(lost.routes, func(_ netip.Prefix, r route) bool { return r.link == Tunnel || r.link == "" })
		*have = lost
	}
	l, err := k.h.LinkByName(Tunnel)
	if err != nil {
		return nil, fmt.Errorf("find the link %s: %w", Tunnel, err)
	}
	k.tunnel.Store(int32(l.Attrs().Index))
	if l.Attrs().MTU != want.tunnel.mtu {
		err = errors.Join(err, k.h.LinkSetMTU(l, want.tunnel.mtu))
	}
	// Programs that manage networks give a new link another address.
	if l.Attrs().HardwareAddr.String() != want.tunnel.mac.String() {
		err = errors.Join(err, k.h.LinkSetHardwareAddr(l, want.tunnel.mac[:]))
	}
	if l.Attrs().Flags&net.FlagUp == 0 {
		err = errors.Join(err, quiet(Tunnel), k.h.LinkSetUp(l))
	}
	if err != nil {
		return nil, fmt.Errorf("set up the link %s: %w", Tunnel, err)
	}
	return l, nil
}

// drop removes a link, and all that is on it.
func (k *kernel) drop(name string) error {
	l, err := k.link(name)
	if err == nil && l != nil {
		err = k.h.LinkDel(l)
	}
	if err != nil {
		return fmt.Errorf("remove the link %s: %w", name, err)
	}
	return nil
}

// fill puts onto the tunnel what is missing.
func (k *kernel) fill(on netlink.Link, want, have state, do func(any, error)) {
	for p := range want.addrs {
		if !have.addrs[p] {
			do(p, k.h.AddrReplace(on, &netlink.Addr{IPNet: ipNet(p), Flags: unix.IFA_F_NODAD, Scope: unix.RT_SCOPE_UNIVERSE}))
		}
	}
	for a, m := range want.neighbours {
		if have.neighbours[a] != m {
			do(a, k.h.NeighSet(neighbour(on, a, m)))
		}
	}
	for m, at := range want.forwarding {
		if have.forwarding[m] != at {
			do(m, k.h.NeighSet(placed(on, m, at)))
		}
	}
}

// thin takes from the tunnel what is too much.
func (k *kernel) thin(on netlink.Link, want, have state, do func(any, error)) {
	for m, at := range have.forwarding {
		if _, ok := want.forwarding[m]; !ok {
			do(m, k.h.NeighDel(placed(on, m, at)))
		}
	}
	for a, m := range have.neighbours {
		if _, ok := want.neighbours[a]; !ok {
			do(a, k.h.NeighDel(neighbour(on, a, m)))
		}
	}
	for p := range have.addrs {
		if !want.addrs[p] {
			do(p, k.h.AddrDel(on, &netlink.Addr{IPNet: ipNet(p)}))
		}
	}
}

func neighbour(on netlink.Link, a netip.Addr, m mac) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: on.Attrs().Index, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: m[:]}
}

func placed(on netlink.Link, m mac, at netip.Addr) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: on.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF,
		IP: at.AsSlice(), HardwareAddr: m[:]}
}

// bringRoutes changes the routes that differ. One that leads elsewhere now is replaced, so that no packet finds none.
func (k *kernel) bringRoutes(want, have state, do func(any, error)) {
	for p, r := range want.routes {
		if have.routes[p] == r {
			continue
		}
		l, err := k.h.LinkByName(r.link)
		if err != nil {
			do(p, err)
			continue
		}
		next := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(p), Gw: r.via.AsSlice(), Protocol: Protocol}
		if r.link == Tunnel {
			next.Flags = int(netlink.FLAG_ONLINK)
		}
		if r.src.IsValid() {
			next.Src = r.src.AsSlice()
		}
		if old, ok := have.routes[p]; ok && p.Addr().Is6() && r.link == Tunnel && old.link != Tunnel {
			// IPv6 takes no gateway that another link's route leads to, and the first address of the range is one.
			if err := k.h.RouteDel(&netlink.Route{Dst: ipNet(p), Protocol: Protocol}); err != nil && !errors.Is(err, unix.ESRCH) {
				do(p, err)
			}
		}
		do(p, k.h.RouteReplace(next))
	}
	for p := range have.routes {
		if _, ok := want.routes[p]; !ok {
			err := k.h.RouteDel(&netlink.Route{Dst: ipNet(p), Protocol: Protocol})
			if !errors.Is(err, unix.ESRCH) { // it went with its link
				do(p, err)
			}
		}
	}
}

// mendBridge takes addresses of another time from the bridge of the pods: the bridge plugin would refuse to use it. The plugin gives it
// the right one with the next pod.
func (k *kernel) mendBridge(want state) error {
	l, err := k.link(Bridge)
	if err != nil {
		return fmt.Errorf("look for the bridge %s: %w", Bridge, err)
	}
	if _, ok := l.(*netlink.Bridge); !ok {
		return nil
	}
	addrs, err := dump(func() ([]netlink.Addr, error) { return k.h.AddrList(l, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list the addresses of %s: %w", Bridge, err)
	}
	for i := range addrs {
		p, ok := prefixOf(addrs[i].IPNet)
		if !ok || p.Addr().IsLinkLocalUnicast() || want.gateways[p] {
			continue
		}
		k.log.Info("the bridge has an address of another pod range: it goes", "bridge", Bridge, "address", p)
		if err := k.h.AddrDel(l, &addrs[i]); err != nil {
			return fmt.Errorf("take the address %s from %s: %w", p, Bridge, err)
		}
	}
	if l.Attrs().MTU != want.mtu {
		if err := k.h.LinkSetMTU(l, want.mtu); err != nil {
			return fmt.Errorf("set the MTU of %s: %w", Bridge, err)
		}
	}
	return nil
}

// prepare lets packets through this machine. Each knob that it turns is logged once.
func (k *kernel) prepare(want state) error {
	for p := range want.gateways {
		if err := forwarding.On(p.Addr().Is6(), k.log); err != nil {
			return err
		}
	}
	knobs := map[string]string{}
	for _, r := range want.routes {
		// A peer may send through the tunnel what we send plainly, and the other way round: the strict check would drop it. The larger
		// of the two values counts.
		knob := "net/ipv4/conf/" + r.link + "/rp_filter"
		if !slices.Contains(links, r.link) && max(read(knob), read("net/ipv4/conf/all/rp_filter")) == "1" {
			knobs[knob] = "2"
		}
	}
	for name, value := range knobs {
		if read(name) == value {
			continue
		}
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
			return fmt.Errorf("set %s to %s: %w", strings.ReplaceAll(name, "/", "."), value, err)
		}
		if !k.knobs[name] {
			k.log.Info("set a parameter of the kernel, for the pod network", "name", strings.ReplaceAll(name, "/", "."), "value", value)
			k.knobs[name] = true
		}
	}
	return nil
}

func read(knob string) string {
	text, err := os.ReadFile("/proc/sys/" + knob)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// quiet keeps IPv6 on a link to the addresses that it is given, and lets asymmetric paths through.
func quiet(name string) error {
	for knob, value := range map[string]string{"net/ipv6/conf/" + name + "/accept_ra": "0", "net/ipv6/conf/" + name + "/addr_gen_mode": "1",
		"net/ipv4/conf/" + name + "/rp_filter": "2"} {
		if err := os.WriteFile("/proc/sys/"+knob, []byte(value), 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
