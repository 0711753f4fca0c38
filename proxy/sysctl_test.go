package proxy

import (
	"log/slog"
	"net/netip"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/forwarding"
	"github.com/kloop-dev/kloop/test/need"
)

// On a machine without a default route cluster IPs have one of their own, by a number that "kloop reset" knows.
func TestServiceRoute(t *testing.T) {
	need.BeRoot(t)
	runtime.LockOSThread() // the thread ends with the test, and its namespace with it
	need.Have(t, need.Root, unix.Unshare(unix.CLONE_NEWNET))
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, netlink.LinkSetUp(lo))
	services := netip.MustParsePrefix("10.96.0.0/16")
	must(t, prepareKernel(services, slog.New(slog.DiscardHandler)))
	list, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: forwarding.RouteProtocol}, netlink.RT_FILTER_PROTOCOL)
	must(t, err)
	if len(list) != 1 || list[0].Dst.String() != services.String() {
		t.Errorf("routes: %v", list)
	}
}
