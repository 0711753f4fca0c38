package cluster

import (
	"net"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/podnetwork"
	"github.com/kloop-dev/kloop/test/need"
)

// TestHostAddress: a machine with several links is known by the one that leads to the server, then by the one that leads everywhere; never by
// one that was made for its pods.
func TestHostAddress(t *testing.T) {
	need.BeRoot(t)
	runtime.LockOSThread() // and never unlocked: the thread ends with the test's goroutine
	need.Have(t, need.Root, unix.Unshare(unix.CLONE_NEWNET))
	link := func(name, addr string) netlink.Link {
		t.Helper()
		l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "-peer"}
		a, err := netlink.ParseAddr(addr)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{netlink.LinkAdd(l), netlink.AddrAdd(l, a), netlink.LinkSetUp(l)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	want := func(other, addr string) {
		t.Helper()
		if got, err := hostAddress(other); err != nil || got.String() != addr {
			t.Errorf("towards %q: %v, %v; want %s", other, got, err, addr)
		}
	}
	want("", "127.0.0.1")
	link(podnetwork.Bridge, "10.88.0.1/24")
	want("", "127.0.0.1")
	link("eth1", "192.168.5.2/24")
	want("", "192.168.5.2")
	wide := link("eth0", "10.0.2.15/24")
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: wide.Attrs().Index, Gw: net.IPv4(10, 0, 2, 2)}); err != nil {
		t.Fatal(err)
	}
	want("", "10.0.2.15")
	want("192.168.5.1:6443", "192.168.5.2")
	want("127.0.0.1:6443", "10.0.2.15")
	want(":6443", "10.0.2.15")
	want(hostPort("https://192.168.5.1"), "192.168.5.2")
}
