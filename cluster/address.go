package cluster

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/kloop-dev/kloop/kinds/wellknown"
)

// Addresses that no machine has, behind the default routes (RFC 5737, RFC 3849).
const (
	anywhere  = "203.0.113.1:9"
	anywhere6 = "[2001:db8:ffff::1]:9"
)

// hostAddress is the address by which this machine reaches another, host:port; "" or one of this machine's own loopback: by which it
// reaches most, IPv4 before IPv6. Links that are made for pods have none of it. It sends nothing. Of the loopback when the machine reaches
// nobody.
func hostAddress(other string) (netip.Addr, error) {
	if a, ok := towards("udp", other); ok && other != "" {
		return a, nil
	}
	return firstAddress(false, true)
}

// hostAddresses are the addresses by which a node of a cluster with these ranges of services is known: one of each family that they
// have, the first family's first. A machine that has none of a family goes without it.
func hostAddresses(services []netip.Prefix) (first, second netip.Addr, err error) {
	if len(services) == 0 {
		services = DefaultServiceCIDRs()
	}
	v6 := services[0].Addr().Is6()
	if len(services) == 1 {
		first, err = firstAddress(v6, !v6)
		return first, second, err
	}
	if first, err = firstAddress(v6, !v6); err == nil {
		second, err = otherAddress(first)
	}
	return first, second, err
}

// otherAddress is the machine's address of the other family; zero: it has none.
func otherAddress(than netip.Addr) (netip.Addr, error) {
	other, err := firstAddress(than.Is4(), than.Is4())
	if other.IsLoopback() {
		return netip.Addr{}, err
	}
	return other, err
}

// firstAddress is the machine's address of a family, or of a second one; of the loopback when it has neither.
func firstAddress(families ...bool) (netip.Addr, error) {
	for _, v6 := range families {
		network, to := "udp4", anywhere
		if v6 {
			network, to = "udp6", anywhere6
		}
		if a, ok := towards(network, to); ok {
			return a, nil
		}
		if a, err := onLink(v6); err != nil || a.IsValid() {
			return a, err
		}
	}
	return netip.MustParseAddr("127.0.0.1"), nil
}

// towards is the machine's address on packets to another.
func towards(network, to string) (netip.Addr, bool) {
	d := net.Dialer{Control: func(network, _ string, c syscall.RawConn) error {
		if network != "udp6" {
			return nil
		}
		return c.Control(preferPublic)
	}}
	c, err := d.Dial(network, to)
	if err != nil {
		return netip.Addr{}, false // no route there, or nothing was given
	}
	defer c.Close()
	from, err := netip.ParseAddrPort(c.LocalAddr().String())
	return from.Addr().Unmap(), err == nil && from.Addr().IsGlobalUnicast()
}

// ownLinks are the pod network's, with addresses that are no machine's.
var ownLinks = []string{wellknown.PodBridge, wellknown.PodTunnel, wellknown.PodWireGuard}

// onLink is the first address of a family that a link has; zero: none has.
func onLink(v6 bool) (netip.Addr, error) {
	links, err := net.Interfaces()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read the machine's addresses: %w", err)
	}
	for _, l := range links {
		addrs, err := l.Addrs()
		if err != nil || slices.Contains(ownLinks, l.Name) {
			continue // it has just gone, or is our own
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is6() == v6 && p.Addr().IsGlobalUnicast() {
				return p.Addr(), nil
			}
		}
	}
	return netip.Addr{}, nil
}

// HostAddresses are those by which this machine is known as a node of a cluster with these ranges of services. The first of them is the one
// by which it reaches the server at host:port, if that is of the cluster's first family; the second is zero where it has none.
func HostAddresses(services []netip.Prefix, server string) (first, second netip.Addr, err error) {
	first, second, err = hostAddresses(services)
	if err != nil {
		return first, second, err
	}
	if at, ok := towards("udp", server); ok && at.Is4() == first.Is4() {
		first = at
	}
	return first, second, nil
}

// hostsOf are the names that a node's certificate is good for.
func hostsOf(name string, addrs ...netip.Addr) []string {
	list := []string{name, "127.0.0.1"}
	for _, a := range addrs {
		if a.IsValid() {
			list = append(list, a.String())
		}
	}
	return list
}
