package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// hooks ties the maps to the kernel's path of packets: destinations change as packets come in or are made here,
// sources as they leave, and what leads nowhere is refused on its way.
func (b *book) hooks() {
	nat := func(name string, hook *nftables.ChainHook, prio *nftables.ChainPriority) *nftables.Chain {
		return b.c.AddChain(&nftables.Chain{Name: name, Table: b.t, Type: nftables.ChainTypeNAT, Hooknum: hook, Priority: prio})
	}
	for _, c := range []*nftables.Chain{
		nat("incoming", nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest),
		nat("own", nftables.ChainHookOutput, nftables.ChainPriorityNATDest)} {
		b.rule(c, byAddress(b.services))
		b.rule(c, byNodePort(b.nodePorts))
	}
	out := nat("outgoing", nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	b.rule(out, []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(masquerade), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
		&expr.Masq{}})
	for name, hook := range map[string]*nftables.ChainHook{"refuse-forwarded": nftables.ChainHookForward,
		"refuse-own": nftables.ChainHookOutput, "refuse-incoming": nftables.ChainHookInput} {
		c := b.c.AddChain(&nftables.Chain{Name: name, Table: b.t, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter})
		b.rule(c, byAddress(b.refused))
	}
}

// The registers of a concatenated key: the parts stand side by side, four bytes each.
const (
	part1 = unix.NFT_REG32_00
	part2 = unix.NFT_REG32_01
	part3 = unix.NFT_REG32_02
)

// byAddress looks the packet's destination, protocol and port up and goes where the map says.
func byAddress(m *nftables.Set) []expr.Any {
	const destinationAddress = 16
	return []expr.Any{
		&expr.Payload{DestRegister: part1, Base: expr.PayloadBaseNetworkHeader, Offset: destinationAddress, Len: 4},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: part2},
		&expr.Payload{DestRegister: part3, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Lookup{SourceRegister: part1, DestRegister: 0, IsDestRegSet: true, SetName: m.Name, SetID: m.ID}}
}

// byNodePort does so for packets to an address of the node's own, but for the loopback's.
func byNodePort(m *nftables.Set) []expr.Any {
	const local = unix.RTN_LOCAL
	return []expr.Any{
		&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagDADDR: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(local)},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: part1},
		&expr.Payload{DestRegister: part2, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Lookup{SourceRegister: part1, DestRegister: 0, IsDestRegSet: true, SetName: m.Name, SetID: m.ID}}
}

// prepareKernel lets packets through the node, and gives cluster IPs a route where there is no default one: the
// kernel looks for a route before it applies our rules to packets of the node's own.
func prepareKernel(services netip.Prefix) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let the node forward packets: %w", err)
	}
	// Answers between pods on one bridge must pass the rules too. Without bridges in the kernel there is no such file.
	err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0o644)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("let rules see bridged packets: %w", err)
	}
	routes, err := netlink.RouteGet(net.IP(services.Addr().AsSlice()))
	if err == nil && len(routes) > 0 {
		return nil
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback: %w", err)
	}
	_, dst, err := net.ParseCIDR(services.String())
	if err != nil {
		return err
	}
	if err := netlink.RouteReplace(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK}); err != nil {
		return fmt.Errorf("route the cluster IPs: %w", err)
	}
	return nil
}

// forget ends what the kernel remembers of UDP flows to endpoints that are gone: they would go on being sent there.
// It is a courtesy: flows also end by themselves.
func forget(old, now []port) {
	there := map[netip.AddrPort]bool{}
	for _, p := range now {
		for _, e := range p.inside {
			there[e] = true
		}
	}
	for _, p := range old {
		if p.protocol != corev1.ProtocolUDP {
			continue
		}
		for _, e := range p.inside {
			if !there[e] {
				f := &netlink.ConntrackFilter{}
				if f.AddIP(netlink.ConntrackReplySrcIP, e.Addr().AsSlice()) == nil && f.AddProtocol(unix.IPPROTO_UDP) == nil {
					_, _ = netlink.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, f)
				}
			}
		}
	}
}
