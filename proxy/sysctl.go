package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
)

// prepare lets packets through this machine, once for each set of service ranges.
func (l *loop) prepare() error {
	ranges := fmt.Sprint(l.book.here.services)
	if l.prepared == ranges {
		return nil
	}
	for _, p := range l.book.here.services {
		if err := prepareKernel(p); err != nil {
			return err
		}
	}
	l.prepared = ranges
	return nil
}

// prepareKernel lets packets through the node, and gives cluster IPs a route where there is no default one: the
// kernel looks for a route before it applies our rules to packets of the node's own.
func prepareKernel(services netip.Prefix) error {
	if services.Addr().Is6() {
		if err := keepRoutes(); err != nil {
			return fmt.Errorf("keep the routes that routers announce: %w", err)
		}
	}
	forward, bridge := "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/bridge/bridge-nf-call-iptables"
	if services.Addr().Is6() {
		forward, bridge = "/proc/sys/net/ipv6/conf/all/forwarding", "/proc/sys/net/bridge/bridge-nf-call-ip6tables"
	}
	err := os.WriteFile(forward, []byte("1"), 0o644)
	if errors.Is(err, os.ErrNotExist) && services.Addr().Is6() {
		return nil // no IPv6 on this machine: nothing of it comes here
	}
	if err != nil {
		return fmt.Errorf("let the node forward packets: %w", err)
	}
	// Answers between pods on one bridge must pass the rules too. Without bridges in the kernel there is no such file.
	err = os.WriteFile(bridge, []byte("1"), 0o644)
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

// keepRoutes has interfaces that take their routes from IPv6 routers go on doing so: a kernel that forwards packets takes no more by
// itself, and the machine would lose its default route.
func keepRoutes() error {
	files, err := filepath.Glob("/proc/sys/net/ipv6/conf/*/accept_ra")
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || strings.TrimSpace(string(text)) != "1" {
			continue // the interface has gone, or takes none
		}
		if err := os.WriteFile(f, []byte("2"), 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
