package podnetwork

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/nft"
)

// A stream is a pod that sends packets to another, which counts them: so many flows, each from a port of its own.
type stream struct {
	sent, got atomic.Int64
	stop      func()
}

// flow sends a packet each millisecond until stop, of one flow after the other.
func flow(t *testing.T, from, to *box, port, flows int) *stream {
	t.Helper()
	var l net.PacketConn
	conns := make([]net.Conn, flows)
	addr := net.JoinHostPort(to.podIP, strconv.Itoa(port))
	to.pod.Do(t, func() (err error) {
		l, err = net.ListenPacket("udp4", addr)
		return err
	})
	from.pod.Do(t, func() (err error) {
		for i := range conns {
			if conns[i], err = net.Dial("udp4", addr); err != nil {
				return err
			}
		}
		return nil
	})
	s := &stream{}
	go func() {
		for buf := make([]byte, 64); ; s.got.Add(1) {
			if _, _, err := l.ReadFrom(buf); err != nil {
				return
			}
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-tick.C
			if _, err := conns[i%flows].Write([]byte("x")); err == nil {
				s.sent.Add(1)
			}
		}
	}()
	s.stop = func() {
		cancel()
		<-ended
		for end := time.Now().Add(time.Second); s.got.Load() < s.sent.Load() && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		l.Close()
		for _, c := range conns {
			c.Close()
		}
	}
	return s
}

// TestNothingIsLost: packets of a hundred flows between pods, on one link and through the tunnel, pass while other nodes join, leave and
// are not ready, and while the agent is away and starts again.
func TestNothingIsLost(t *testing.T) {
	s := newSite(t, 1500)
	s.begin(ModeAuto)
	flows := map[string]*stream{}
	for _, to := range []*box{s.b, s.c} {
		flows[to.name] = flow(t, s.a, to, 7, 50)
		eventually.True(t, "no packet arrives", func() bool { return flows[to.name].got.Load() > 0 })
	}
	// What was sent before the first arrived may have gone nowhere: cables that were plugged in a moment ago lose packets.
	for name, to := range map[string]*box{"b": s.b, "c": s.c} {
		flows[name].stop()
		flows[name] = flow(t, s.a, to, 7, 50)
	}
	for i := range 20 {
		more := s.all()
		for n := range i % 7 {
			more = append(more, node(fmt.Sprint("d", n), fmt.Sprintf("192.0.2.%d", 100+n), fmt.Sprintf("10.88.%d.0/24", 100+n)))
		}
		for _, n := range more { // a node that is not ready keeps its routes
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
		}
		s.tell(more)
	}
	eventually.True(t, "the routes to the nodes that joined", func() bool { return len(routes(t, s.a)) == 2+19%7 })
	s.a.stop()
	s.a.start(ModeAuto, s.all())
	eventually.True(t, "the routes to the nodes that left", func() bool { return len(routes(t, s.a)) == 2 })
	for name, f := range flows {
		f.stop()
		if lost := f.sent.Load() - f.got.Load(); lost != 0 || f.sent.Load() < 100 {
			t.Errorf("from a to %s: %d of %d packets are lost", name, lost, f.sent.Load())
		}
		t.Logf("from a to %s: %d packets of 50 flows", name, f.sent.Load())
	}
}

// TestReturns: a node that is gone loses its routes; when it comes back with another range and another address, it is reached there, and
// its bridge loses the old address.
func TestReturns(t *testing.T) {
	s := newSite(t, 1500)
	s.begin(ModeAuto)
	without := s.all()[:2]
	for _, b := range []*box{s.a, s.b} {
		b.client.states <- without
		eventually.True(t, "the routes to c go", func() bool { return len(routes(t, b)) == 1 })
	}
	s.c.Do(t, func() error { return give("eth0", "198.51.100.33/24") })
	now := append(without, node("c", "198.51.100.33", "10.88.9.0/24"))
	s.tell(now)
	eventually.True(t, "cni0 loses its old address", func() bool {
		left := -1
		s.c.Do(t, func() error {
			l, err := netlink.LinkByName(Bridge)
			if err != nil {
				return err
			}
			list, err := netlink.AddrList(l, netlink.FAMILY_V4)
			left = len(list)
			return err
		})
		return left == 0
	})
	s.c.Do(t, func() error { return give(Bridge, "10.88.9.1/24") }) // as the bridge plugin does for the next pod
	s.c.attach("10.88.9.1", "10.88.9.5", 1450)
	serve(t, s.c.pod, ":80")
	eventually.True(t, "the pod of the new range is not reached", func() bool {
		seen, err := ask(s.a.pod, "10.88.9.5:80")
		return err == nil && seen == s.a.podIP
	})
	eventually.True(t, "the CNI configuration has the old range", func() bool {
		text, err := os.ReadFile(s.c.conf)
		return err == nil && strings.Contains(string(text), `"subnet": "10.88.9.0/24"`)
	})
}

// TestTells: the Node says that the network is up, and after a while what is wrong.
func TestTells(t *testing.T) {
	s := newSite(t, 1500)
	a := s.a
	a.start(ModeAuto, nodes{node("a", a.addr)})
	if _, err := os.Stat(a.conf); err == nil {
		t.Error("there is a CNI configuration without a range")
	}
	eventually.True(t, "no word of the missing range", func() bool { return strings.Contains(a.client.told(), reasonNoRange) })
	a.client.states <- nodes{node("a", a.addr, "10.88.0.0/24")}
	eventually.True(t, "no word that the network is up", func() bool { return strings.Contains(a.client.told(), reasonUp) })
	a.client.states <- nodes{node("0", "192.0.2.9", "10.88.0.0/16"), node("a", a.addr, "10.88.0.0/24")}
	eventually.True(t, "no word of the overlap", func() bool { return strings.Contains(a.client.told(), "overlaps that of node 0") })
}

// TestCleanup takes away everything of ours, and nothing of others. Doing it again is no error, and spares the bridge of another.
func TestCleanup(t *testing.T) {
	s := newSite(t, 1500)
	s.begin(ModeAuto)
	a := s.a
	a.stop()
	names := func() (list []string) {
		a.Do(t, func() error {
			links, err := netlink.LinkList()
			for _, l := range links {
				list = append(list, l.Attrs().Name)
			}
			return err
		})
		return list
	}
	clean := func() { a.Do(t, func() error { return Cleanup(a.conf, slog.New(slog.DiscardHandler)) }) }
	clean()
	if got := routes(t, a); len(got) != 0 {
		t.Errorf("routes are left: %v", got)
	}
	if list := names(); slices.Contains(list, Tunnel) || !slices.Contains(list, Bridge) || !slices.Contains(list, "eth0") {
		t.Errorf("links: %v; the bridge has a pod, and stays", list)
	}
	if _, err := os.Stat(a.conf); err == nil {
		t.Error("the CNI configuration is left")
	}
	a.Do(t, func() error {
		c, err := nft.Open()
		if err != nil {
			return err
		}
		defer c.Close()
		if there, err := c.Exists(tables[0]); there || err != nil {
			t.Errorf("the table is left: %v", err)
		}
		return nil
	})
	if err := os.WriteFile(a.conf, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.pod.Do(t, func() error {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	})
	clean()
	if list := names(); slices.Contains(list, Bridge) {
		t.Errorf("the bridge is left without a pod: %v", list)
	}
	a.Do(t, func() error { return bridge(Bridge) })
	clean()
	if list := names(); !slices.Contains(list, Bridge) {
		t.Error("the bridge of another program is gone")
	}
}

// TestMany: a thousand machines, half of them behind a router, are a matter of moments, and one more of less.
func TestMany(t *testing.T) {
	s := newSite(t, 1500)
	many := s.all()
	for i := range 1000 {
		lan := []string{"192.0.2", "198.51.100"}[i%2] // addresses repeat: the kernel does not mind
		many = append(many, node(fmt.Sprint("m", i), fmt.Sprintf("%s.%d", lan, 10+i%200), fmt.Sprintf("10.%d.%d.0/24", 100+i/250, i%250)))
	}
	began := time.Now()
	s.a.start(ModeAuto, many)
	eventually.True(t, "a thousand routes", func() bool { return len(routes(t, s.a)) == 1002 })
	t.Logf("%d routes after %v", 1002, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	s.a.client.states <- append(many, node("last", "192.0.2.250", "10.99.0.0/24"))
	eventually.True(t, "one more", func() bool { return len(routes(t, s.a)) == 1003 })
	t.Logf("one more after %v", time.Since(began).Round(time.Millisecond))
	s.a.client.states <- s.all()
	eventually.True(t, "all gone but two", func() bool { return len(routes(t, s.a)) == 2 })
}

// TestNoTunnel: a kernel that makes no tunnel has plain routes and local pods all the same, and the Node says what is missing. When the
// tunnel can be made, it is.
func TestNoTunnel(t *testing.T) {
	s := newSite(t, 1500)
	other := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "other"}, VxlanId: tunnelID, Port: TunnelPort}
	s.a.Do(t, func() error { return netlink.LinkAdd(other) })
	s.begin(ModeAuto)
	serve(t, s.b.pod, ":80")
	serve(t, s.c.pod, ":80")
	eventually.True(t, "the pod on b is not reached", func() bool { _, err := ask(s.a.pod, s.b.podIP+":80"); return err == nil })
	if got := routes(t, s.a); len(got) != 1 {
		t.Errorf("routes: %v", got)
	}
	if _, err := os.Stat(s.a.conf); err != nil {
		t.Error(err)
	}
	eventually.True(t, "no word of the tunnel", func() bool { return strings.Contains(s.a.client.told(), "make the VXLAN link kloop-vx") })
	s.a.Do(t, func() error { return netlink.LinkDel(other) })
	eventually.True(t, "the pod on c is not reached", func() bool { _, err := ask(s.a.pod, s.c.podIP+":80"); return err == nil })
	eventually.True(t, "no word that the network is up", func() bool { return strings.Contains(s.a.client.told(), reasonUp) })
}
