package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/test/need"
)

// TestHostAddress: a machine with several links is known by the one that leads to the server, then by the one that leads everywhere;
// never by one that was made for its pods.
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
	link(wellknown.PodBridge, "10.88.0.1/24")
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
	want("192.168.5.1:443", "192.168.5.2")
}

// TestHostAddresses: a node has an address of each family that services have, the first family's first, as far as the machine has them.
func TestHostAddresses(t *testing.T) {
	need.BeRoot(t)
	runtime.LockOSThread() // and never unlocked: the thread ends with the test's goroutine
	need.Have(t, need.Root, unix.Unshare(unix.CLONE_NEWNET))
	v4, v6 := netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd96::/108")
	want := func(services []netip.Prefix, what string) {
		t.Helper()
		first, second, err := hostAddresses(services)
		if got := fmt.Sprint(first, " ", second); err != nil || got != what {
			t.Errorf("services %v: %s, %v; want %s", services, got, err, what)
		}
	}
	both, turned := []netip.Prefix{v4, v6}, []netip.Prefix{v6, v4}
	want(both, "127.0.0.1 invalid IP")
	l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth0-peer"}
	if err := netlink.LinkAdd(l); err != nil {
		t.Fatal(err)
	}
	give := func(addr string) {
		t.Helper()
		a, err := netlink.ParseAddr(addr)
		if err != nil {
			t.Fatal(err)
		}
		a.Flags = unix.IFA_F_NODAD
		if err := errors.Join(netlink.AddrAdd(l, a), netlink.LinkSetUp(l)); err != nil {
			t.Fatal(err)
		}
	}
	give("2001:db8::5/64")
	for _, s := range [][]netip.Prefix{{v4}, {v6}, both, turned, nil} {
		want(s, "2001:db8::5 invalid IP")
	}
	give("192.0.2.5/24")
	for want1, s := range map[string][]netip.Prefix{"192.0.2.5 invalid IP": {v4}, "2001:db8::5 invalid IP": {v6},
		"192.0.2.5 2001:db8::5": both, "2001:db8::5 192.0.2.5": turned} {
		want(s, want1)
	}
	if a, err := hostAddress(""); err != nil || a.String() != "192.0.2.5" {
		t.Errorf("without a word: %v, %v", a, err)
	}
}
