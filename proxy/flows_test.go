package proxy

import (
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
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
	if c.RemoteAddr().(*net.UDPAddr).Port != 30053 { // a program of this machine may have that port
		until("")
	}
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
	if edit == nil {
		delete(w.services, name)
		l.sync(t, w)
		until("")
	}
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
