package podnetwork

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/test/netspace"
)

// serve answers TCP connections in a namespace with the client's address.
func serve(t testing.TB, in netspace.Space, addr string) {
	t.Helper()
	var l net.Listener
	in.Do(t, func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	})
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			_, _ = c.Write([]byte(host + "\n")) // the client finds out
			c.Close()
		}
	}()
}

// ask connects from a namespace and returns as whom it was seen.
func ask(from netspace.Space, addr string) (seen string, err error) {
	err = from.Run(func() error {
		c, err := net.DialTimeout("tcp", addr, 3*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
			return err
		}
		_, err = fmt.Fscan(c, &seen)
		return err
	})
	return seen, err
}

// TestSite: pods on three machines, two of them on one link and the third behind a router, reach each other at their own addresses. A
// machine reaches every pod, and is reached; elsewhere a pod has its node's address.
func TestSite(t *testing.T) {
	for _, mode := range []string{ModeAuto, ModeVXLAN} {
		t.Run(mode, func(t *testing.T) {
			s := newSite(t, 1500)
			s.begin(mode)
			for _, b := range s.boxes() {
				serve(t, b.pod, ":80")
				serve(t, b.Space, ":81")
			}
			serve(t, s.router, ":82")
			for _, from := range s.boxes() {
				for _, to := range s.boxes() {
					if seen, err := ask(from.pod, to.podIP+":80"); err != nil || seen != from.podIP {
						t.Errorf("pod on %s to pod on %s: seen as %q, %v", from.name, to.name, seen, err)
					}
					if seen, err := ask(from.Space, to.podIP+":80"); err != nil {
						t.Errorf("%s to the pod on %s: seen as %q, %v", from.name, to.name, seen, err)
					}
					if _, err := ask(from.pod, to.addr+":81"); err != nil {
						t.Errorf("pod on %s to %s: %v", from.name, to.name, err)
					}
				}
				if seen, err := ask(from.pod, "192.0.2.254:82"); err != nil || seen != from.addr {
					t.Errorf("pod on %s to the router: seen as %q, %v; want %s", from.name, seen, err, from.addr)
				}
			}
			plain := mode == ModeAuto
			want := map[string]string{"10.88.1.0/24": "kloop-vx", "10.88.2.0/24": "kloop-vx"}
			if plain {
				want["10.88.1.0/24"] = "eth0"
			}
			if got := routes(t, s.a); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("routes of a: %v, want %v", got, want)
			}
		})
	}
}

// routes are those of ours, with their links.
func routes(t testing.TB, b *box) map[string]string {
	t.Helper()
	got := map[string]string{}
	b.Do(t, func() error {
		list, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: Protocol}, netlink.RT_FILTER_PROTOCOL)
		for _, r := range list {
			l, err := netlink.LinkByIndex(r.LinkIndex)
			if err != nil {
				return err
			}
			got[r.Dst.String()] = l.Attrs().Name
		}
		return err
	})
	return got
}

// probe sends a UDP packet of so many bytes, headers included, that may not be split, and says whether it arrived.
func probe(t testing.TB, from, to netspace.Space, addr string, size int) (arrived bool, err error) {
	t.Helper()
	var l net.PacketConn
	to.Do(t, func() (err error) {
		l, err = net.ListenPacket("udp4", addr)
		return err
	})
	defer l.Close()
	err = from.Run(func() error {
		c, err := net.Dial("udp4", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		raw, err := c.(*net.UDPConn).SyscallConn()
		if err != nil {
			return err
		}
		var opt error
		err = raw.Control(func(fd uintptr) {
			opt = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		})
		if err = errors.Join(err, opt); err != nil {
			return err
		}
		_, err = c.Write(make([]byte, size-28))
		return err
	})
	if err != nil {
		return false, err
	}
	_ = l.SetReadDeadline(time.Now().Add(time.Second)) // a listener that is open takes one
	n, _, err := l.ReadFrom(make([]byte, 1<<16))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return n == size-28, err
}

// TestPacketSize: the largest packet of a pod arrives whole on every way, and what is too large is refused instead of lost.
func TestPacketSize(t *testing.T) {
	for _, mtu := range []int{1500, 1400, 9000} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			s := newSite(t, mtu)
			s.begin(ModeAuto)
			text, err := os.ReadFile(s.a.conf)
			if err != nil || !strings.Contains(string(text), fmt.Sprintf(`"mtu": %d`, mtu-50)) {
				t.Fatalf("the CNI configuration lacks the MTU %d: %v\n%s", mtu-50, err, text)
			}
			for _, to := range []*box{s.b, s.c} {
				serve(t, to.pod, ":80") // cables that were plugged in a moment ago lose the first packets
				eventually.True(t, "the pod is not reached", func() bool { _, err := ask(s.a.pod, to.podIP+":80"); return err == nil })
				if ok, err := probe(t, s.a.pod, to.pod, to.podIP+":9", mtu-50); !ok || err != nil {
					t.Errorf("a packet of %d bytes to the pod on %s: arrived %v, %v", mtu-50, to.name, ok, err)
				}
			}
			if ok, err := probe(t, s.a.pod, s.c.pod, s.c.podIP+":9", mtu-49); ok || !errors.Is(err, unix.EMSGSIZE) {
				t.Errorf("a packet of %d bytes: arrived %v, %v", mtu-49, ok, err)
			}
			// A machine's own packets have the size of its links, and learn what the tunnel takes.
			if ok, err := probe(t, s.a.Space, s.c.pod, s.c.podIP+":9", mtu-50); !ok || err != nil {
				t.Errorf("a packet of %d bytes of the machine's: arrived %v, %v", mtu-50, ok, err)
			}
		})
	}
}

// TestMend: what somebody takes away comes back, and what somebody else made stays.
func TestMend(t *testing.T) {
	s := newSite(t, 1500)
	s.begin(ModeAuto)
	serve(t, s.c.pod, ":80")
	a := s.a
	foreign := "203.0.113.0/24"
	a.Do(t, func() error { return via("eth0", foreign, "192.0.2.2") })
	tunnel := func(f func(netlink.Link) error) func() error {
		return func() error {
			l, err := netlink.LinkByName(Tunnel)
			if err != nil {
				return err
			}
			return f(l)
		}
	}
	far := netip4("10.88.2.0")
	for what, harm := range map[string]func() error{
		"the tunnel is deleted": tunnel(netlink.LinkDel),
		"the tunnel is down":    tunnel(netlink.LinkSetDown),
		"the tunnel has another address": tunnel(func(l netlink.Link) error {
			return netlink.LinkSetHardwareAddr(l, net.HardwareAddr{2, 1, 1, 1, 1, 1})
		}),
		"the neighbour is gone": tunnel(func(l netlink.Link) error { return netlink.NeighDel(neighbour(l, far, macOf("c"))) }),
		"the forwarding is gone": tunnel(func(l netlink.Link) error {
			return netlink.NeighDel(placed(l, macOf("c"), netip4(s.c.addr)))
		}),
		"the routes are gone": func() error {
			for _, p := range []string{"10.88.1.0/24", "10.88.2.0/24"} {
				_, dst, _ := net.ParseCIDR(p)
				if err := netlink.RouteDel(&netlink.Route{Dst: dst}); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		if _, err := ask(a.pod, s.c.podIP+":80"); err != nil {
			t.Fatalf("before %s: %v", what, err)
		}
		a.Do(t, harm)
		began := time.Now()
		eventually.True(t, what+": the pod on c is not reached again", func() bool {
			_, err := ask(a.pod, s.c.podIP+":80")
			return err == nil && len(routes(t, a)) == 2
		})
		t.Logf("%s: mended after %v", what, time.Since(began).Round(time.Millisecond))
	}
	a.Do(t, func() error {
		_, dst, _ := net.ParseCIDR(foreign)
		list, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Dst: dst}, netlink.RT_FILTER_DST)
		if err == nil && len(list) != 1 {
			t.Error("the route of somebody else is gone")
		}
		return err
	})
}

func netip4(text string) netip.Addr { return netip.MustParseAddr(text) }
