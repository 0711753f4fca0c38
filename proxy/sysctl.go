package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/kloop-dev/kloop/forwarding"
)

// prepare lets packets through this machine, once for each set of service ranges.
func (l *loop) prepare() error {
	ranges := fmt.Sprint(l.book.here.services)
	if l.prepared == ranges {
		return nil
	}
	for _, p := range l.book.here.services {
		if err := prepareKernel(p, l.cfg.Log); err != nil {
			return err
		}
	}
	l.prepared = ranges
	return nil
}

// prepareKernel lets packets through the node, and gives cluster IPs a route where there is no default one: the
// kernel looks for a route before it applies our rules to packets of the node's own.
func prepareKernel(services netip.Prefix, log *slog.Logger) error {
	v6 := services.Addr().Is6()
	if _, err := os.Stat("/proc/sys/net/ipv6"); v6 && err != nil {
		return nil // no IPv6 on this machine: nothing of it comes here
	}
	if err := forwarding.On(v6, log); err != nil {
		return err
	}
	bridge := "/proc/sys/net/bridge/bridge-nf-call-iptables"
	if v6 {
		bridge = "/proc/sys/net/bridge/bridge-nf-call-ip6tables"
	}
	// Answers between pods on one bridge must pass the rules too. Without bridges in the kernel there is no such file.
	err := os.WriteFile(bridge, []byte("1"), 0o644)
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
	route := netlink.Route{LinkIndex: lo.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK, Protocol: forwarding.RouteProtocol}
	if err := netlink.RouteReplace(&route); err != nil {
		return fmt.Errorf("route the cluster IPs: %w", err)
	}
	return nil
}

// tuneConntrack sets what the kernel remembers of connections as kube-proxy does. tcp_be_liberal is our own: otherwise a segment outside
// the window is of no connection and so not translated, and a client that gets it from the endpoint's address resets its connection.
func tuneConntrack(log *slog.Logger) {
	for _, k := range []struct {
		name  string
		value int
		most  bool // what is higher stays
	}{{"max", min(max(128<<10, 32<<10*runtime.NumCPU()), 1<<20), true}, {"tcp_be_liberal", 1, false},
		{"tcp_timeout_established", 86400, false}, {"tcp_timeout_close_wait", 3600, false}} {
		file := "/proc/sys/net/netfilter/nf_conntrack_" + k.name
		text, err := os.ReadFile(file)
		if have, is := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || is != nil || have == k.value || k.most && have > k.value {
			continue
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(k.value)), 0o644); err != nil { // the size is not a container's to set
			log.Info("a setting of connection tracking stays", "file", file, "is", strings.TrimSpace(string(text)), "want", k.value, "err", err)
		}
	}
}
