package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// ownNetwork puts the test's thread into a network namespace of its own, with addresses on its loopback that stand
// for pods. It needs root.
func ownNetwork(t *testing.T, pods ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip("no network namespace can be made here:", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		addr, err := netlink.ParseAddr(p + "/32")
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.AddrAdd(lo, addr); err != nil {
			t.Fatal(err)
		}
	}
	// What prepareKernel does by files of /proc belongs to the thread's namespace only there.
	_, dst, _ := net.ParseCIDR(Config{}.range4().String())
	if err := netlink.RouteReplace(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK}); err != nil {
		t.Fatal(err)
	}
}

// answer listens at the address and says who it is.
func answer(t *testing.T, at string) {
	t.Helper()
	l, err := net.Listen("tcp4", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, at)
			c.Close()
		}
	}()
}

func ask(at string) (string, error) {
	c, err := net.DialTimeout("tcp4", at, time.Minute)
	if err != nil {
		return "", err
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	return string(text), err
}

func TestKernelFollowsPorts(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "10.1.0.2", "10.1.0.3")
	answer(t, "10.1.0.1:8080")
	answer(t, "10.1.0.2:8080")
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	web := port{name: "d/web:http/TCP", protocol: corev1.ProtocolTCP, port: 80, nodePort: 30080, addrs: []netip.Addr{netip.MustParseAddr("10.96.0.10")}}
	web.inside = []netip.AddrPort{at("10.1.0.1:8080"), at("10.1.0.2:8080")}
	web.outside = web.inside
	empty := port{name: "d/empty:/TCP", protocol: corev1.ProtocolTCP, port: 80, addrs: []netip.Addr{netip.MustParseAddr("10.96.0.11")}}
	if err := program([]port{empty, web}); err != nil {
		t.Fatal(err)
	}
	met := map[string]int{}
	for range 40 {
		who, err := ask("10.96.0.10:80")
		if err != nil {
			t.Fatal(err)
		}
		met[who]++
	}
	if len(met) != 2 {
		t.Errorf("40 connections met %v; want both endpoints", met)
	}
	if who, err := ask("10.1.0.3:30080"); err != nil {
		t.Errorf("node port: %v", err)
	} else if met[who] == 0 {
		t.Errorf("node port led to %q", who)
	}
	if _, err := ask("10.96.0.11:80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a service without endpoints: %v, want refused", err)
	}

	web.inside = web.inside[1:]
	web.outside = web.inside
	if err := program([]port{web}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if who, err := ask("10.96.0.10:80"); err != nil || who != "10.1.0.2:8080" {
			t.Fatalf("after the endpoint was taken out: %q, %v", who, err)
		}
	}
}

func TestStickyClients(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "10.1.0.2")
	answer(t, "10.1.0.1:8080")
	answer(t, "10.1.0.2:8080")
	p := port{name: "d/sticky:/TCP", protocol: corev1.ProtocolTCP, port: 80, sticky: true, addrs: []netip.Addr{netip.MustParseAddr("10.96.0.12")},
		inside: []netip.AddrPort{netip.MustParseAddrPort("10.1.0.1:8080"), netip.MustParseAddrPort("10.1.0.2:8080")}}
	if err := program([]port{p}); err != nil {
		t.Fatal(err)
	}
	first, err := ask("10.96.0.12:80")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if who, err := ask("10.96.0.12:80"); err != nil || who != first {
			t.Fatalf("first %s, then %q, %v", first, who, err)
		}
	}
}
