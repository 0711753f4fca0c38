package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/ipvs"
)

// echo answers datagrams at the addresses with the address.
func echo(t *testing.T, addresses ...string) {
	t.Helper()
	for _, at := range addresses {
		c, err := net.ListenPacket("udp", at)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		go func() {
			buf := make([]byte, 64)
			for {
				_, from, err := c.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = c.WriteTo([]byte(at), from)
			}
		}()
	}
}

// TestUDPFlows has one client that never stops sending from one port, as DNS resolvers and phones do, to every sort of address: it must
// reach an endpoint as soon as there is one, and another when that is gone, although the kernel remembers its flow.
func TestUDPFlows(t *testing.T) {
	local := corev1.ServiceInternalTrafficPolicyLocal
	for _, tt := range []struct {
		name, at string
		edit     func(*corev1.Service)
		prefix   string // of endpoints
	}{
		{"cluster IP", "10.96.0.53:80", nil, "10.1.0."},
		{"cluster IP, internalTrafficPolicy Local", "10.96.0.53:80", func(s *corev1.Service) {
			s.Spec.InternalTrafficPolicy = &local
		}, "10.1.0."},
		{"IPv6", "[fd00:96::53]:80", func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = "fd00:96::53", []string{"fd00:96::53"}
		}, "fd00::"},
		{"node port", "10.1.0.100:30053", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30053 }, "10.1.0."},
		{"load balancer", balancerIP + ":80", func(s *corev1.Service) {
			s.Spec.Type = corev1.ServiceTypeLoadBalancer
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: balancerIP}}
		}, "10.1.0."},
		{"external IP", externalAddr + ":80", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{externalAddr} }, "10.1.0."},
	} {
		t.Run(tt.name, func(t *testing.T) { followUDP(t, tt.at, tt.edit, tt.prefix) })
	}
}

func followUDP(t *testing.T, to string, edit func(*corev1.Service), prefix string) {
	ownNetwork(t, "10.1.0.1", "10.1.0.2", "10.1.0.100", "fd00::1", "fd00::2")
	one, two := prefix+"1", prefix+"2"
	met1, met2 := net.JoinHostPort(one, "8080"), net.JoinHostPort(two, "8080")
	moved := net.JoinHostPort(two, "8081")
	echo(t, met1, met2, moved)
	here := onNodeNamed("n1")
	w := newWorld()
	name := w.service("dns", "10.96.0.53", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP })
	if edit != nil {
		edit(w.services[name])
	}
	cfg := Config{Services: prefixes([]string{"10.96.0.0/16", "fd00:96::/112"})}
	l := newProxy(t, w, cfg)
	must(t, l.prepare())
	route(t, balancerIP, externalAddr)
	c, err := net.Dial("udp", to)
	must(t, err)
	defer c.Close()
	met := func() string {
		_, _ = c.Write([]byte("x")) // refused, perhaps: the error is of an earlier datagram
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		buf := make([]byte, 64)
		n, _ := c.Read(buf)
		return string(buf[:n])
	}
	until := func(want string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); met() != want; {
			if time.Now().After(end) {
				t.Fatalf("the client does not reach %q", want)
			}
		}
	}
	met() // before any proxy ran
	w.ends("dns", at(one, here))
	l.sync(t, w)
	until(met1)
	w.ends("dns", at(two, here))
	l.sync(t, w, name)
	until(met2)
	other := int32(8081) // the pods' port changes
	for _, s := range w.slices[name] {
		for i := range s.Ports {
			s.Ports[i].Port = &other
		}
	}
	l.sync(t, w, name)
	until(moved)
	w.ends("dns", at(one, here, unready))
	l.sync(t, w, name)
	until("")
	w.ends("dns", at(one, here), at(two, here))
	l.sync(t, w, name)
	for met() == "" {
	}
	// A new proxy finds what changed while none ran.
	w.ends("dns", at(one, here))
	l.sync(t, w, name)
	until(met1)
	w.ends("dns", at(two, here))
	newProxy(t, w, cfg).sync(t, w)
	until(met2)
	service := w.services[name]
	for _, sync := range []func(){
		func() { l.sync(t, w, name) },
		func() { l.sync(t, w) },
		func() { newProxy(t, w, cfg).sync(t, w) }, // it is gone while none runs
	} {
		w.services[name] = service
		l = newProxy(t, w, cfg)
		l.sync(t, w)
		until(met2)
		delete(w.services, name)
		sync()
		until("")
	}
}

// TestFlowsOfOthers has flows that are not the service's, at its addresses before it comes, or once it is gone or has no endpoints. None
// of them ends, and all that are the service's do.
func TestFlowsOfOthers(t *testing.T) {
	const external, node, program = externalAddr + ":80", "10.1.0.100:30053", "10.1.0.100:30054"
	const end, hostPort = "10.1.0.1:8080", "10.1.0.50:53"
	type flow struct{ to, by string }
	ours := []flow{{external, end}, {node, end}, {"[fd00:5::1]:80", "[fd00::1]:8080"}}
	others := []flow{{external, hostPort}, {node, hostPort}, {node, node}, {program, end}, {externalAddr + ":81", end}, {end, end}}
	setup := func(t *testing.T) (*world, *loop, key) {
		ownNetwork(t, "10.1.0.100", "fd00::100")
		w := newWorld()
		name := w.service("dns", "10.96.0.53", func(s *corev1.Service) {
			s.Spec.Ports[0].Protocol, s.Spec.Ports[0].NodePort = corev1.ProtocolUDP, 30053
			s.Spec.ClusterIPs = []string{"10.96.0.53", "fd00:96::53"}
			s.Spec.ExternalIPs = []string{externalAddr, "fd00:5::1"}
		})
		w.ends("dns", at("10.1.0.1"), at("fd00::1"))
		l := newProxy(t, w, Config{Services: prefixes([]string{"10.96.0.0/16", "fd00:96::/112"})})
		l.sync(t, w)
		return w, l, name
	}
	for name, test := range map[string]func(*world, *loop, key) []flow{
		"deleted":   func(w *world, _ *loop, name key) []flow { delete(w.services, name); return others },
		"endpoints": func(w *world, _ *loop, _ key) []flow { w.ends("dns"); return others[1:] }, // the service has external
		"node port": func(w *world, _ *loop, name key) []flow {
			s := w.services[name].DeepCopy()
			s.Spec.Ports[0].NodePort, s.Spec.ExternalIPs = 0, nil
			w.services[name] = s
			return others
		},
	} {
		for _, how := range []string{"seen", "all anew", "while no proxy ran"} {
			t.Run(name+", "+how, func(t *testing.T) {
				w, l, name := setup(t)
				for i, f := range slices.Concat(ours, others) {
					remember(t, uint16(1000+i), f.to, f.by)
				}
				left := test(w, l, name)
				switch how {
				case "seen":
					l.sync(t, w, name)
				case "all anew":
					l.sync(t, w)
				default:
					newProxy(t, w, l.cfg).sync(t, w)
				}
				var want []string
				for _, f := range left {
					want = append(want, f.to+" "+f.by)
				}
				got := flowsLeft(t)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("left are\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	}
}

// TestFlowsOfVirtualServers: what IPVS holds at a start says where flows led. Of servers of a mark nobody knows the address.
func TestFlowsOfVirtualServers(t *testing.T) {
	web, end := netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("10.1.0.1:5353")
	udp := ipvs.Key{Addr: web.Addr(), Protocol: unix.IPPROTO_UDP, Port: web.Port()}
	tcp := udp
	tcp.Protocol = unix.IPPROTO_TCP
	p := past{}
	for _, k := range []ipvs.Key{udp, tcp, ipvs.MarkKey(marked, false)} {
		p.serve(map[ipvs.Key]*held{k: {ends: map[netip.AddrPort]bool{end: false}}})
	}
	at := address{web.Addr(), unix.IPPROTO_UDP, web.Port()}
	if len(p) != 1 || !p.led(at, end) || p.led(at, web) {
		t.Errorf("%v, want %v behind %v alone", p, end, web)
	}
}

// TestFlowOfOnePort: one port of a service leads to another port of its pods, while the port beside it stays with the old one.
func TestFlowOfOnePort(t *testing.T) {
	ownNetwork(t, "10.1.0.100")
	w := newWorld()
	name := w.service("dns", "10.96.0.53", func(s *corev1.Service) {
		udp := corev1.ProtocolUDP
		s.Spec.Ports = []corev1.ServicePort{{Name: "a", Protocol: udp, Port: 80}, {Name: "b", Protocol: udp, Port: 81}}
	})
	w.ends("dns", at("10.1.0.1"))
	l := newProxy(t, w, Config{})
	l.sync(t, w)
	remember(t, 1000, "10.96.0.53:80", "10.1.0.1:8080")
	remember(t, 1001, "10.96.0.53:81", "10.1.0.1:8080")
	other := int32(8081)
	w.slices[name][0].Ports[0].Port = &other
	l.sync(t, w, name)
	if got := flowsLeft(t); !slices.Equal(got, []string{"10.96.0.53:81 10.1.0.1:8080"}) {
		t.Errorf("left are %s, want that of the port 81", got)
	}
}

// remember has conntrack know a flow of UDP from a port of a client to an address, that another, or the same, answers.
func remember(t *testing.T, port uint16, to, by string) {
	t.Helper()
	d, e := netip.MustParseAddrPort(to), netip.MustParseAddrPort(by)
	client, family := netip.MustParseAddr("203.0.113.9"), netlink.InetFamily(unix.AF_INET)
	if d.Addr().Is6() {
		client, family = netip.MustParseAddr("fd00:9::9"), unix.AF_INET6
	}
	c := netip.AddrPortFrom(client, port)
	tuple := func(from, to netip.AddrPort) netlink.IPTuple {
		return netlink.IPTuple{Protocol: unix.IPPROTO_UDP, SrcIP: from.Addr().AsSlice(), SrcPort: from.Port(), DstIP: to.Addr().AsSlice(),
			DstPort: to.Port()}
	}
	f := &netlink.ConntrackFlow{FamilyType: uint8(family), TimeOut: 3600, Forward: tuple(c, d), Reverse: tuple(e, c)}
	must(t, netlink.ConntrackCreate(netlink.ConntrackTable, family, f))
}

// flowsLeft lists the flows of UDP that conntrack knows.
func flowsLeft(t *testing.T) (list []string) {
	t.Helper()
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
		must(t, err)
		for _, f := range flows {
			to, _ := netip.AddrFromSlice(f.Forward.DstIP)
			by, _ := netip.AddrFromSlice(f.Reverse.SrcIP)
			to, by = to.Unmap(), by.Unmap()
			list = append(list, fmt.Sprint(netip.AddrPortFrom(to, f.Forward.DstPort), " ", netip.AddrPortFrom(by, f.Reverse.SrcPort)))
		}
	}
	slices.Sort(list)
	return list
}

// route leads addresses nowhere in particular: what has none is not even sent.
func route(t *testing.T, addresses ...string) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	for _, a := range addresses {
		_, dst, err := net.ParseCIDR(a + "/32")
		must(t, err)
		must(t, netlink.RouteReplace(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK}))
	}
}
