package loadbalancer

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

const vip = "192.168.77.100"

// answers waits until that node is the last one that claimed the address.
func (l *lan) answers(r *recording, m *member) {
	l.t.Helper()
	eventually.True(l.t, m.name+" answers", func() bool {
		list := r.turns()
		return len(list) > 0 && list[len(list)-1].mac == m.mac
	})
}

func order(list []sight, nodes ...*member) string {
	text := ""
	for _, s := range list {
		name := s.mac
		for _, m := range nodes {
			if m.mac == s.mac {
				name = m.name
			}
		}
		text += name + " "
	}
	return text
}

// TestOneAnswers: nobody before there is a Lease, one node while there is, nobody once it is gone.
func TestOneAnswers(t *testing.T) {
	l := newLAN(t, 3)
	r := l.record(vip)
	n1, n2, n3 := l.nodes[0], l.nodes[1], l.nodes[2]
	l.lease(vip, n2, n3, n1)
	l.answers(r, n2)
	if got := order(r.turns(), l.nodes...); got != "n2 " {
		t.Errorf("answered: %s", got)
	}
	l.lease(vip) // no candidates
	eventually.True(t, "the holder lets go", func() bool {
		lease := resource.Get(l.local.Read(), kinds.Leases, wellknown.AnnounceSpace, "l2-"+vip)
		return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == ""
	})
	silent(t, r)
}

// silent fails when the address is claimed within a while.
func silent(t *testing.T, r *recording) {
	t.Helper()
	before := len(r.all())
	time.Sleep(300 * time.Millisecond)       // what must not happen can't be waited for
	if now := len(r.all()); now > before+1 { // one may have been under way
		t.Errorf("%d claims after it was to be silent", now-before)
	}
}

// TestFailover kills the node that answers: another takes over, and no two ever answer.
func TestFailover(t *testing.T) {
	for name, lose := range map[string]func(l *lan, m *member){
		"agent killed":         func(_ *lan, m *member) { m.kill() },
		"cable pulled":         func(l *lan, m *member) { l.link(m.name, false) },
		"machine lost":         func(l *lan, m *member) { l.link(m.name, false); m.kill() },
		"agent stops in order": func(_ *lan, m *member) { m.stop(); <-m.ended },
		"no longer a candidate": func(l *lan, m *member) {
			l.lease(vip, l.nodes[1], l.nodes[2])
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLAN(t, 3)
			r := l.record(vip)
			l.lease(vip, l.nodes...)
			l.answers(r, l.nodes[0])
			eventually.True(t, "heartbeats are heard, as the announcements are over", func() bool {
				n := 0
				for _, s := range r.all() {
					if s.unasked {
						n++
					}
				}
				return n >= 2*2
			})
			began := time.Now()
			lose(l, l.nodes[0])
			l.answers(r, l.nodes[1])
			turns := r.turns()
			if got := order(turns, l.nodes...); got != "n1 n2 " {
				t.Fatalf("answered: %s", got)
			}
			t.Logf("failover: %v", turns[1].at.Sub(began)) // two seconds are the goal; a busy machine may take longer
			if !turns[1].unasked {
				eventually.True(t, "an announcement", func() bool {
					for _, s := range r.all() {
						if s.unasked && s.mac == l.nodes[1].mac {
							return true
						}
					}
					return false
				})
			}
			l.link("n1", true) // back again: it must not answer
			silentOf(t, r, l.nodes[0].mac)
			if got := order(r.turns(), l.nodes...); got != "n1 n2 " {
				t.Errorf("answered in the end: %s", got)
			}
		})
	}
}

// silentOf fails when that machine claims the address within a while.
func silentOf(t *testing.T, r *recording, mac string) {
	t.Helper()
	before := len(r.all())
	time.Sleep(500 * time.Millisecond)
	for _, s := range r.all()[before:] {
		if s.mac == mac {
			t.Errorf("%s still claims the address", mac)
			return
		}
	}
}

// TestCutOff: a holder that hears neither API nor other nodes, but still answers, keeps the address: who has taken its Lease hears
// it answer, and waits. When it sees the Lease it stops, and the other begins.
func TestCutOff(t *testing.T) {
	l := newLAN(t, 2)
	r := l.record(vip)
	n1, n2 := l.nodes[0], l.nodes[1]
	l.lease(vip, n1, n2)
	l.answers(r, n1)
	eventually.True(t, "n1 has announced", func() bool { return len(r.all()) > 100 })
	n1.api.cut.Store(true)
	n1.run(func() error {
		eth, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(n1.ip + "/24")
		if err != nil {
			return err
		}
		return netlink.AddrDel(eth, addr) // no more heartbeats; ARP needs no address
	})
	eventually.True(t, "n2 has the Lease", func() bool {
		lease := resource.Get(l.local.Read(), kinds.Leases, wellknown.AnnounceSpace, "l2-"+vip)
		return *lease.Spec.HolderIdentity == "n2"
	})
	silentOf(t, r, n2.mac)
	if got := order(r.turns(), l.nodes...); got != "n1 " {
		t.Fatalf("answered: %s", got)
	}
	n1.api.cut.Store(false)
	l.answers(r, n2)
	silentOf(t, r, n1.mac)
	if got := order(r.turns(), l.nodes...); got != "n1 n2 " {
		t.Errorf("answered: %s", got)
	}
}

// TestAPIGone: while the API is out of reach for all, the holder goes on.
func TestAPIGone(t *testing.T) {
	l := newLAN(t, 2)
	r := l.record(vip)
	l.lease(vip, l.nodes...)
	l.answers(r, l.nodes[0])
	for _, m := range l.nodes {
		m.api.cut.Store(true)
	}
	before := len(r.all())
	eventually.True(t, "answers for two seconds more", func() bool { return len(r.all()) > before+200 })
	if got := order(r.turns(), l.nodes...); got != "n1 " {
		t.Errorf("answered: %s", got)
	}
}

// TestNeighbours: the kernel of another machine finds the address, by ARP and by NDP, and follows it to another node.
func TestNeighbours(t *testing.T) {
	for _, addr := range []string{vip, "fd77::100"} {
		t.Run(addr, func(t *testing.T) {
			l := newLAN(t, 2)
			l.lease(addr, l.nodes...)
			is := func(m *member) {
				t.Helper()
				eventually.True(t, "the neighbour is "+m.name, func() bool { return l.neighbour(addr) == m.mac })
			}
			is(l.nodes[0])
			l.nodes[0].stop()
			is(l.nodes[1])
		})
	}
}

// neighbour sends something to the address, and returns its hardware address as the asker's kernel knows it.
func (l *lan) neighbour(addr string) (mac string) {
	l.asker.run(func() error {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 9)))
		if err != nil {
			return err
		}
		defer c.Close()
		_, _ = c.Write([]byte("x"))
		eth, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		list, err := netlink.NeighList(eth.Attrs().Index, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, n := range list {
			if n.IP.Equal(net.ParseIP(addr)) {
				mac = n.HardwareAddr.String()
			}
		}
		return nil
	})
	return mac
}

// TestForeignIsNoted: the Lease of an address that lies in no network of its node says so, once the network has been told of it; that
// of one that does lie there does not.
func TestForeignIsNoted(t *testing.T) {
	l := newLAN(t, 1)
	note := func(ip string) (string, bool) {
		lease := resource.Get(l.local.Read(), kinds.Leases, wellknown.AnnounceSpace, "l2-"+ip)
		text, noted := lease.Annotations[wellknown.AnnouncedForeign]
		return text, noted
	}
	r := l.record(vip)
	l.lease(vip, l.nodes...)
	l.lease("192.0.2.9", l.nodes...)
	eventually.True(t, "the other network's address is noted", func() bool {
		text, _ := note("192.0.2.9")
		return text == "eth0 192.168.77.11/24"
	})
	l.answers(r, l.nodes[0])
	if text, noted := note(vip); noted {
		t.Errorf("%s lies in %q, and is noted as foreign", vip, text)
	}
}
