package bgp

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/loadbalancer/bgp"
)

const (
	nodeAS   = 64512
	patience = time.Minute
)

var own = bgp.Own{RouterID: addr("10.0.0.1"), Addresses: []netip.Addr{addr("10.0.0.1"), addr("fd00::1")}}

// shows waits until a router has exactly these routes.
func (s *remote) shows(want ...string) {
	s.t.Helper()
	eventually.Sees(s.t, patience, "the router's routes", func() (bool, any) {
		have := slices.Sorted(maps.Keys(s.rib()))
		return slices.Equal(have, slices.Sorted(slices.Values(want))), have
	})
}

// is waits until the session with a peer is up, or has a trouble with these words.
func (s *remote) is(peer, words string) {
	s.t.Helper()
	eventually.Sees(s.t, patience, "the session with "+peer, func() (bool, any) {
		st := s.states()[peer]
		return st.Established == (words == "") && strings.Contains(st.Trouble, words) && (st.Established || st.Trouble != ""), st
	})
}

// lab is a node and a router on one link.
func lab(t *testing.T, as uint32, edit func(*Neighbor)) (node, router *remote) {
	t.Helper()
	node, router = newStation(t, nil), newStation(t, nil)
	node.do("Wire", Wire{"eth0", "eth0", router.cmd.Process.Pid})
	node.do("Up", []string{"eth0", "10.0.0.1/24", "fd00::1/64"})
	router.do("Up", []string{"eth0", "10.0.0.2/24", "fd00::2/64"})
	n := Neighbor{AS: nodeAS}
	if edit != nil {
		edit(&n)
	}
	r := Routing{AS: as, ID: "10.0.0.2"}
	for _, address := range []string{"10.0.0.1", "fd00::1"} {
		n.Address = address
		r.Neighbors = append(r.Neighbors, n)
	}
	router.do("Start", r)
	return node, router
}

func peer(as uint32) bgp.Peer {
	return bgp.Peer{Name: "tor", Address: addr("10.0.0.2"), MyAS: nodeAS, PeerAS: as, Both: true}
}

func route(prefix string) bgp.Route { return bgp.Route{Prefix: netip.MustParsePrefix(prefix)} }

// TestRoutes: what is announced arrives with its attributes, follows every change, and goes when the speaker goes.
func TestRoutes(t *testing.T) {
	for _, tt := range []struct {
		name string
		as   uint32
		path string
		pref string
	}{
		{"a router of another AS", 64513, "{AsPath: 64512}", ""},
		{"of the same", nodeAS, "{AsPath: }", "{LocalPref: 300}"},
		{"of an AS of four octets", 4200000001, "{AsPath: 64512}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node, router := lab(t, tt.as, nil)
			first := bgp.Route{Prefix: netip.MustParsePrefix("192.0.2.1/32"), LocalPref: 300, Communities: []uint32{64512<<16 | 7},
				Large: [][3]uint32{{64512, 8, 9}}}
			node.speak(own, Saying{peer(tt.as), []bgp.Route{first, route("198.51.100.0/24"), route("2001:db8::5/128")}})
			node.is("tor", "")
			router.shows("192.0.2.1/32", "198.51.100.0/24", "2001:db8::5/128")
			rib := router.rib()
			for prefix, words := range map[string][]string{
				"192.0.2.1/32": {"{Nexthop: 10.0.0.1}", tt.path, tt.pref, "64512:7", "64512:8:9"}, "198.51.100.0/24": {"{Nexthop: 10.0.0.1}"},
				"2001:db8::5/128": {"{Nexthop: fd00::1}", tt.path}} {
				for _, w := range words {
					if !strings.Contains(rib[prefix], w) {
						t.Errorf("%s has %s, not %s", prefix, rib[prefix], w)
					}
				}
			}
			first.Communities = []uint32{5}
			node.speak(own, Saying{peer(tt.as), []bgp.Route{first, route("2001:db8::6/128")}})
			router.shows("192.0.2.1/32", "2001:db8::6/128")
			eventually.Sees(t, patience, "the other community", func() (bool, any) {
				now := router.rib()["192.0.2.1/32"]
				return strings.Contains(now, "0:5") && !strings.Contains(now, "64512:7"), now
			})
			node.do("Hush", 0)
			router.shows()
		})
	}
}

// TestMany: three thousand routes arrive, and half of them go.
func TestMany(t *testing.T) {
	node, router := lab(t, 64513, nil)
	var all []bgp.Route
	for i := range 3000 {
		r := route(fmt.Sprintf("192.0.%d.%d/32", i/250, i%250))
		for c := range bgp.MostCommunities {
			r.Communities = append(r.Communities, uint32(i%3*1000+c))
		}
		all = append(all, r)
	}
	node.speak(own, Saying{peer(64513), all})
	for _, n := range []int{3000, 1500, 3000} {
		node.speak(own, Saying{peer(64513), all[:n]})
		eventually.Sees(t, patience, "all routes", func() (bool, any) { have := len(router.rib()); return have == n, have })
	}
}

// TestOverIPv6: a session over IPv6 carries routes of its own family, and of the other if that is wanted.
func TestOverIPv6(t *testing.T) {
	node, router := lab(t, 64513, nil)
	p := peer(64513)
	p.Address, p.Both = addr("fd00::2"), false
	routes := []bgp.Route{route("192.0.2.1/32"), route("2001:db8::5/128")}
	node.speak(own, Saying{p, routes})
	router.shows("2001:db8::5/128")
	p.Both = true
	node.speak(own, Saying{p, routes})
	router.shows("192.0.2.1/32", "2001:db8::5/128")
}

// TestOwnWideAS: our AS number may have four octets.
func TestOwnWideAS(t *testing.T) {
	node, router := lab(t, 64513, func(n *Neighbor) { n.AS = 4200000002 })
	p := peer(64513)
	p.MyAS = 4200000002
	node.speak(own, Saying{p, []bgp.Route{route("192.0.2.1/32")}})
	router.shows("192.0.2.1/32")
	if now := router.rib()["192.0.2.1/32"]; !strings.Contains(now, "4200000002") {
		t.Error(now)
	}
}

// TestPassword: sessions are signed, and with another password there is none.
func TestPassword(t *testing.T) {
	for _, over := range []string{"10.0.0.2", "fd00::2"} {
		node, router := lab(t, 64513, func(n *Neighbor) { n.Password = "secret" })
		p := peer(64513)
		p.Address, p.Password = addr(over), "wrong"
		routes := []bgp.Route{route("192.0.2.1/32")}
		node.speak(own, Saying{p, routes})
		node.is("tor", "are the passwords the same?")
		p.Password = "secret"
		node.speak(own, Saying{p, routes})
		node.is("tor", "")
		router.shows("192.0.2.1/32")
	}
}

// TestTrouble: what is wrong is put into words.
func TestTrouble(t *testing.T) {
	node, router := lab(t, 64513, nil)
	p := peer(64999)
	node.speak(own, Saying{p, nil})
	node.is("tor", "the peer says that it is of AS 64513")
	p = peer(64513)
	p.MyAS = 64998
	node.speak(own, Saying{p, nil})
	node.is("tor", "compare myASN")
	p = peer(64513)
	p.Port = 1790
	node.speak(own, Saying{p, nil})
	node.is("tor", "connection refused")
	router.kill()
	node.speak(own, Saying{peer(64513), nil})
	node.is("tor", "connect:")
}

// TestMultiHop: a router of another AS that is behind a third is spoken to if that is wanted.
func TestMultiHop(t *testing.T) {
	node, hop, router := newStation(t, nil), newStation(t, nil), newStation(t, nil)
	node.do("Wire", Wire{"eth0", "eth0", hop.cmd.Process.Pid})
	hop.do("Wire", Wire{"eth1", "eth0", router.cmd.Process.Pid})
	node.do("Up", []string{"eth0", "10.0.0.1/24"})
	hop.do("Up", []string{"eth0", "10.0.0.9/24"})
	hop.do("Up", []string{"eth1", "10.0.1.9/24"})
	router.do("Up", []string{"eth0", "10.0.1.2/24"})
	hop.do("Forward", 0)
	node.do("Route", []string{"10.0.1.0/24", "10.0.0.9"})
	router.do("Route", []string{"10.0.0.0/24", "10.0.1.9"})
	router.do("Start", Routing{AS: 64513, ID: "10.0.1.2", Neighbors: []Neighbor{{Address: "10.0.0.1", AS: nodeAS, MultiHop: true}}})
	p := peer(64513)
	p.Address = addr("10.0.1.2")
	routes := []bgp.Route{route("192.0.2.1/32")}
	node.speak(own, Saying{p, routes})
	node.is("tor", "connect:")
	p.MultiHop = true
	node.speak(own, Saying{p, routes})
	node.is("tor", "")
	router.shows("192.0.2.1/32")
}

// TestGracefulRestart: while the speaker is killed and comes back, no route that is still wanted is ever gone or hidden; one that is not
// wanted any more goes. A peer that is taken out of the configuration loses all at once.
func TestGracefulRestart(t *testing.T) {
	node, router := lab(t, 64513, nil)
	p := peer(64513)
	p.Graceful = true
	speaker := newStation(t, node)
	speaker.speak(own, Saying{p, []bgp.Route{route("192.0.2.1/32"), route("192.0.2.2/32"), route("2001:db8::5/128")}})
	router.shows("192.0.2.1/32", "192.0.2.2/32", "2001:db8::5/128")
	for _, how := range []string{"killed", "stopped"} {
		if how == "killed" {
			speaker.kill()
		} else {
			speaker.do("Hush", 0)
		}
		eventually.Sees(t, patience, "the router notices", func() (bool, any) {
			now := router.rib()
			return strings.HasSuffix(now["192.0.2.1/32"], "*") && strings.HasSuffix(now["2001:db8::5/128"], "*"), now
		})
		speaker = newStation(t, node)
		speaker.speak(own, Saying{p, []bgp.Route{route("192.0.2.1/32"), route("2001:db8::5/128")}})
		eventually.Sees(t, patience, "the routes after a restart", func() (bool, any) {
			now := router.rib()
			if now["192.0.2.1/32"] == "" || now["2001:db8::5/128"] == "" {
				t.Fatalf("%s: a route is gone: %v", how, now)
			}
			return len(now) == 2 && !strings.HasSuffix(now["192.0.2.1/32"], "*") && !strings.HasSuffix(now["2001:db8::5/128"], "*"), now
		})
	}
	speaker.speak(own)
	router.shows()
}

// TestRouterComesBack: a session is made again, with all routes, when the router was away. Two routers don't matter to each other.
func TestRouterComesBack(t *testing.T) {
	node, first, second := newStation(t, nil), newStation(t, nil), newStation(t, nil)
	var to []Saying
	up := func(i int, r *remote) {
		r.do("Start", Routing{AS: 64513, ID: "10.0.0.2", Neighbors: []Neighbor{{Address: fmt.Sprintf("10.0.%d.1", i), AS: nodeAS}}})
	}
	for i, r := range []*remote{first, second} {
		link := fmt.Sprint("eth", i)
		node.do("Wire", Wire{link, "eth0", r.cmd.Process.Pid})
		node.do("Up", []string{link, fmt.Sprintf("10.0.%d.1/24", i)})
		r.do("Up", []string{"eth0", fmt.Sprintf("10.0.%d.2/24", i)})
		p := peer(64513)
		p.Name, p.Address, p.Connect = fmt.Sprint("tor", i), addr(fmt.Sprintf("10.0.%d.2", i)), time.Second
		to = append(to, Saying{p, []bgp.Route{route(fmt.Sprintf("192.0.2.%d/32", i))}})
	}
	up(1, second)
	node.speak(own, to...)
	second.shows("192.0.2.1/32")
	node.is("tor0", "connect:")
	up(0, first)
	first.shows("192.0.2.0/32")
	again := newStation(t, first)
	first.do("Down", 0)
	node.is("tor0", "connect:")
	up(0, again)
	again.shows("192.0.2.0/32")
	second.shows("192.0.2.1/32")
}
