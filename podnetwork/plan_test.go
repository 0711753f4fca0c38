package podnetwork

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// draw writes a state's routes and what is on the tunnel, in order.
func draw(s state) string {
	var list []string
	for p, r := range s.routes {
		list = append(list, fmt.Sprintf("%s via %s dev %s src %v", p, r.via, r.link, r.src))
	}
	for m, a := range s.forwarding {
		list = append(list, fmt.Sprintf("%s at %s", m, a))
	}
	for a, m := range s.neighbours {
		list = append(list, fmt.Sprintf("%s is %s", a, m))
	}
	for p := range s.addrs {
		list = append(list, fmt.Sprintf("own %s", p))
	}
	slices.Sort(list)
	return fmt.Sprintf("mtu %d tunnel %v: %s", s.mtu, s.tunnel != nil, strings.Join(list, ", "))
}

func TestPlan(t *testing.T) {
	near, far := way{"eth0", true, 1500}, way{"eth0", false, 1500}
	both := nodes{node("a", "192.0.2.1", "10.88.0.0/24"), node("b", "192.0.2.2", "10.88.1.0/24")}
	b := macOf("b").String()
	tunnelled := "mtu 1450 tunnel true: 10.88.1.0 is " + b + ", 10.88.1.0/24 via 10.88.1.0 dev kloop-vx src 10.88.0.0, " + b +
		" at 192.0.2.2, own 10.88.0.0/32"
	plain := "mtu 1450 tunnel true: 10.88.1.0/24 via 192.0.2.2 dev eth0 src invalid IP, own 10.88.0.0/32"
	for _, c := range []struct {
		name  string
		nodes nodes
		ways  map[string]way
		mode  string
		mtu   int
		want  string
		notes int
	}{
		{"alone", both[:1], nil, "", 1500, "mtu 1450 tunnel false: ", 0},
		{"alone, and never a tunnel", both[:1], nil, ModeRoutes, 1500, "mtu 1500 tunnel false: ", 0},
		{"on one link", both, map[string]way{"192.0.2.2": near}, "", 1500, plain, 0},
		{"behind a router", both, map[string]way{"192.0.2.2": far}, "", 1500, tunnelled, 0},
		{"not reached now", both, nil, "", 1500, tunnelled, 0},
		{"always a tunnel", both, map[string]way{"192.0.2.2": near}, ModeVXLAN, 1500, tunnelled, 0},
		{"never a tunnel", both, map[string]way{"192.0.2.2": near}, ModeRoutes, 1500,
			"mtu 1500 tunnel false: 10.88.1.0/24 via 192.0.2.2 dev eth0 src invalid IP", 0},
		{"never a tunnel, but a router", both, map[string]way{"192.0.2.2": far}, ModeRoutes, 1500, "mtu 1500 tunnel false: ", 1},
		{"a narrow way", both, map[string]way{"192.0.2.2": {"ppp0", true, 1400}}, "", 1500,
			"mtu 1350 tunnel true: 10.88.1.0/24 via 192.0.2.2 dev ppp0 src invalid IP, own 10.88.0.0/32", 0},
		{"wide links", both, map[string]way{"192.0.2.2": {"eth0", true, 9000}}, "", 9000,
			"mtu 8950 tunnel true: 10.88.1.0/24 via 192.0.2.2 dev eth0 src invalid IP, own 10.88.0.0/32", 0},
		{"no link that is known", both[:1], nil, "", 0, "mtu 1450 tunnel false: ", 0},
		{"a peer without address", nodes{both[0], node("b", "", "10.88.1.0/24")}, nil, "", 1500, "mtu 1450 tunnel true: own 10.88.0.0/32", 0},
		{"a peer without range", nodes{both[0], node("b", "192.0.2.2")}, nil, "", 1500, "mtu 1450 tunnel false: ", 0},
		{"the same range", nodes{both[0], node("b", "192.0.2.2", "10.88.0.0/24")}, nil, "", 1500, "mtu 1450 tunnel false: ", 1},
		{"a part of it", nodes{both[0], node("b", "192.0.2.2", "10.88.0.128/25")}, nil, "", 1500, "mtu 1450 tunnel false: ", 1},
		{"more than it", nodes{both[0], node("b", "192.0.2.2", "10.0.0.0/8")}, nil, "", 1500, "mtu 1450 tunnel false: ", 1},
		{"a range with a machine in it", nodes{both[0], node("b", "192.0.2.2", "192.0.2.0/28")}, nil, "", 1500,
			"mtu 1450 tunnel false: ", 1},
		{"two families over one", nodes{node("a", "192.0.2.1", "10.88.0.0/24", "fd88::/64"),
			node("b", "192.0.2.2", "10.88.1.0/24", "fd88:0:0:1::/64")},
			map[string]way{"192.0.2.2": near}, "", 1500, "mtu 1450 tunnel true: 10.88.1.0/24 via 192.0.2.2 dev eth0 src invalid IP, " + b +
				" at 192.0.2.2, fd88:0:0:1:: is " + b + ", fd88:0:0:1::/64 via fd88:0:0:1:: dev kloop-vx src fd88::, own 10.88.0.0/32, " +
				"own fd88::/128", 0},
		{"IPv6 below", nodes{node("a", "2001:db8::1", "10.88.0.0/24"), node("b", "2001:db8::2", "10.88.1.0/24")}, nil, "", 1500,
			"mtu 1430 tunnel true: 10.88.1.0 is " + b + ", 10.88.1.0/24 via 10.88.1.0 dev kloop-vx src 10.88.0.0, " + b +
				" at 2001:db8::2, own 10.88.0.0/32", 0},
	} {
		g := ground{ways: map[netip.Addr]way{}, mtu: c.mtu, local: addr("192.0.2.1")}
		for a, w := range c.ways {
			g.ways[addr(a)] = w
		}
		want, notes := plan(newCensus(c.nodes, "a"), g, c.mode)
		if got := draw(want); got != c.want || len(notes) != c.notes {
			t.Errorf("%s:\n got %s\nwant %s\nnotes %v, want %d", c.name, got, c.want, notes, c.notes)
		}
	}
}

// Somebody's own route to a range stays, and a note says so.
func TestForeignRoute(t *testing.T) {
	c := newCensus(nodes{node("a", "192.0.2.1", "10.88.0.0/24"), node("b", "192.0.2.2", "10.88.1.0/24")}, "a")
	g := ground{mtu: 1500, foreign: map[netip.Prefix]bool{netip.MustParsePrefix("10.88.1.0/24"): true}}
	if want, notes := plan(c, g, ""); len(want.routes) != 0 || len(notes) != 1 {
		t.Error(draw(want), notes)
	}
}

// TestCensus: of nodes that overlap the older has the range.
func TestCensus(t *testing.T) {
	old := node("z", "192.0.2.9", "10.88.0.0/16")
	old.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	young := node("a", "192.0.2.1", "10.88.3.0/24")
	young.CreationTimestamp = metav1.NewTime(time.Unix(2000, 0))
	c := newCensus(nodes{young, old}, "a")
	if !strings.Contains(c.trouble, "10.88.3.0/24 of node a overlaps that of node z") || len(c.own.ranges) != 1 || len(c.peers) != 1 {
		t.Errorf("%+v", c)
	}
	if c := newCensus(nodes{young, old}, "z"); c.trouble != "" || len(c.peers) != 0 || len(c.notes) != 1 {
		t.Errorf("%+v", c)
	}
	if c := newCensus(nodes{}, "a"); c.trouble == "" {
		t.Error("a node without a range has no trouble")
	}
}

// TestMACs: addresses in the tunnel are for one machine, of no maker, and the same for ever: machines of two versions talk.
func TestMACs(t *testing.T) {
	seen := map[mac]bool{}
	for i := range 10000 {
		m := macOf(fmt.Sprint("node-", i))
		if seen[m] || m[0]&3 != 2 {
			t.Fatalf("%s", m)
		}
		seen[m] = true
	}
	if got := macOf("one").String(); got != "0e:2c:44:71:7f:a8" {
		t.Errorf("the address of one is %s", got)
	}
}

func TestExplain(t *testing.T) {
	var out strings.Builder
	n := nodes{node("a", "192.0.2.1", "10.88.0.0/24"), node("b", "192.0.2.2", "10.88.1.0/24"), node("c", "", "10.88.1.0/25")}
	if err := Explain(&out, n, "a", ModeAuto); err != nil {
		t.Fatal(err)
	}
	want := `pod network on node a
  pods here          10.88.0.0/24
  tunnel             kloop-vx, VXLAN 88 to UDP port 8488, as ` + macOf("a").String() + `
  10.88.1.0/24       to b at 192.0.2.2, by a route, or if a router is between, in the tunnel
  but                the pod range 10.88.1.0/25 of node c overlaps that of node b, which is older: ` +
		"delete the Node c and restart its agent, so that it gets another\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if err := Explain(&out, n[:2], "a", ModeWireGuard); err != nil || !strings.Contains(out.String(), "WireGuard to UDP port 51820\n") ||
		!strings.Contains(out.String(), "at 192.0.2.2, encrypted\n") || !strings.Contains(out.String(), "b: its Node has no annotation") {
		t.Errorf("%s, %v", out.String(), err)
	}
}
