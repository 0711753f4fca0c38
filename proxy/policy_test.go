package proxy

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// town is a node with two pods, a pod of another node, and a machine outside, each in a network of its own.
type town struct {
	w                          *world
	l                          *loop
	pod, other, remote, abroad *place
}

const (
	nodeIP, podIP, otherIP, remoteIP, abroadIP = "192.0.2.1", "10.1.0.2", "10.1.0.3", "10.2.0.2", "203.0.113.9"
	balancerIP, externalAddr                   = "198.51.100.1", "198.51.100.2"
)

func newTown(t *testing.T) *town {
	ownNetwork(t, nodeIP)
	addr := netip.MustParseAddr
	c := &town{w: newWorld()}
	c.pod = newPlace(t, "pod", addr("10.1.0.1"), addr(podIP))
	c.other = newPlace(t, "other", addr("10.1.0.1"), addr(otherIP))
	c.remote = newPlace(t, "remote", addr("10.2.0.1"), addr(remoteIP))
	c.abroad = newPlace(t, "abroad", addr("203.0.113.1"), addr(abroadIP))
	cable, err := netlink.LinkByName("v-abroad")
	must(t, err)
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: cable.Attrs().Index, Gw: net.ParseIP(abroadIP), Flags: int(netlink.FLAG_ONLINK),
		Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}}))
	c.pod.run(func() error { answer(t, podIP+":8080"); return nil })
	c.remote.run(func() error { answer(t, remoteIP+":8080"); return nil })
	c.w.others[kinds.Nodes] = []resource.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec:   corev1.NodeSpec{PodCIDR: "10.1.0.0/24"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP}}}}}
	c.l = newProxy(t, c.w, Config{Node: "n1"})
	return c
}

// from asks from a place. What is to be dropped is not waited for long.
func (c *town) from(where, at, want string) string {
	patience := time.Minute
	if want == "dropped" {
		patience = 300 * time.Millisecond
	}
	places := map[string]*place{"pod": c.other, "itself": c.pod, "abroad": c.abroad}
	if where == "node" {
		return outcome(askWithin(patience, at))
	}
	return outcome(places[where].ask(at, patience))
}

// TestPolicies holds every way in against every policy: who answers, and whom it sees as the client.
func TestPolicies(t *testing.T) {
	c := newTown(t)
	local, far := at(podIP, onNodeNamed("n1")), at(remoteIP, onNodeNamed("n2"))
	ending := func(e discoveryv1.Endpoint) discoveryv1.Endpoint { terminating(&e); return e }
	external := func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }
	internal := func(s *corev1.Service) {
		p := corev1.ServiceInternalTrafficPolicyLocal
		s.Spec.InternalTrafficPolicy = &p
	}
	cluster := func(*corev1.Service) {}
	const (
		vip, nodePort, balancer, ext = "10.96.0.10:80", nodeIP + ":30080", balancerIP + ":80", externalAddr + ":80"
		here, there                  = podIP + " saw ", remoteIP + " saw "
	)
	type try struct{ from, at, want string }
	for _, tt := range []struct {
		name   string
		policy func(*corev1.Service)
		ends   []discoveryv1.Endpoint
		tries  []try
	}{
		{"Cluster, a local endpoint", cluster, []discoveryv1.Endpoint{local}, []try{
			{"pod", vip, here + otherIP}, {"node", vip, here + "10.1.0.1"}, {"abroad", vip, here + "10.1.0.1"}, {"itself", vip, here + "10.1.0.1"},
			{"pod", nodePort, here + "10.1.0.1"}, {"node", nodePort, here + "10.1.0.1"},
			{"abroad", nodePort, here + "10.1.0.1"}, {"itself", nodePort, here + "10.1.0.1"},
			{"abroad", balancer, here + "10.1.0.1"}, {"pod", balancer, here + "10.1.0.1"},
			{"abroad", ext, here + "10.1.0.1"}, {"node", ext, here + "10.1.0.1"},
			{"node", "127.0.0.1:30080", "refused"}, {"abroad", "203.0.113.1:30080", "refused"}}},
		{"Cluster, a remote endpoint", cluster, []discoveryv1.Endpoint{far}, []try{
			{"pod", vip, there + otherIP}, {"abroad", nodePort, there + "10.2.0.1"},
			{"abroad", balancer, there + "10.2.0.1"}, {"node", vip, there + "10.2.0.1"}}},
		{"Cluster, none", cluster, nil, []try{
			{"pod", vip, "refused"}, {"node", vip, "refused"},
			{"abroad", nodePort, "refused"}, {"abroad", balancer, "refused"}, {"node", ext, "refused"}}},
		{"Cluster, terminating", cluster, []discoveryv1.Endpoint{ending(local)}, []try{
			{"pod", vip, here + otherIP}, {"abroad", nodePort, here + "10.1.0.1"}}},
		{"Cluster, terminating here and ready there", cluster, []discoveryv1.Endpoint{ending(local), far}, []try{{"pod", vip, there + otherIP}}},
		{"external Local, a local endpoint", external, []discoveryv1.Endpoint{local, far}, []try{
			{"abroad", nodePort, here + abroadIP}, {"abroad", balancer, here + abroadIP}, {"abroad", ext, here + abroadIP}}},
		{"external Local, a remote endpoint", external, []discoveryv1.Endpoint{far}, []try{
			{"abroad", nodePort, "dropped"}, {"abroad", balancer, "dropped"}, {"abroad", ext, "dropped"},
			{"pod", balancer, there + otherIP}, {"node", nodePort, there + "10.2.0.1"},
			{"node", balancer, there + "10.2.0.1"}, {"pod", vip, there + otherIP}}},
		{"external Local, none", external, nil, []try{{"abroad", nodePort, "refused"}, {"abroad", balancer, "refused"}}},
		{"external Local, terminating here and ready there", external, []discoveryv1.Endpoint{ending(local), far}, []try{
			{"abroad", nodePort, here + abroadIP}, {"pod", vip, there + otherIP}}},
		{"internal Local, a local endpoint", internal, []discoveryv1.Endpoint{local, far}, []try{
			{"pod", vip, here + otherIP}, {"node", vip, here + "10.1.0.1"}}},
		{"internal Local, a remote endpoint", internal, []discoveryv1.Endpoint{far}, []try{
			{"pod", vip, "dropped"}, {"node", vip, "dropped"}, {"abroad", nodePort, there + "10.2.0.1"}}},
		{"internal Local, none", internal, nil, []try{{"pod", vip, "refused"}}},
	} {
		name := c.w.service("web", "10.96.0.10", func(s *corev1.Service) {
			s.Spec.Type, s.Spec.Ports[0].NodePort, s.Spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, 30080, []string{externalAddr}
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: balancerIP}}
		}, tt.policy)
		c.w.ends("web", tt.ends...)
		c.l.sync(t, c.w, name)
		c.l.holds(t)
		for _, try := range tt.tries {
			if got := c.from(try.from, try.at, try.want); got != try.want {
				t.Errorf("%s: from %s to %s: %s, want %s", tt.name, try.from, try.at, got, try.want)
			}
		}
	}
}

// TestVirtualAddress: at an address from a pool a port that no service has is refused at once, whoever asks, as long as some service has
// the address. Another address of a load balancer may be a machine's: it is left alone.
func TestVirtualAddress(t *testing.T) {
	c := newTown(t)
	pool := func(s *corev1.Service) {
		s.Annotations = map[string]string{"metallb.io/ip-allocated-from-pool": "home"}
	}
	at80 := func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: balancerIP}}
	}
	at81 := func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }
	one := c.w.service("one", "10.96.0.10", at80, pool)
	two := c.w.service("two", "10.96.0.11", at80, at81, pool)
	want := func(from, port, what string) {
		t.Helper()
		if got := c.from(from, balancerIP+":"+port, what); got != what {
			t.Errorf("from %s to port %s: %s, want %s", from, port, got, what)
		}
	}
	c.w.ends("one", at(podIP))
	c.l.sync(t, c.w, one, two)
	for _, from := range []string{"abroad", "pod", "node"} {
		want(from, "80", podIP+" saw 10.1.0.1")
		want(from, "81", "refused") // without an endpoint
		want(from, "82", "refused")
	}
	delete(c.w.services, two)
	c.l.sync(t, c.w, two)
	want("abroad", "82", "refused")
	c.w.service("one", "10.96.0.10", at80)
	c.l.sync(t, c.w, one)
	want("abroad", "80", podIP+" saw 10.1.0.1")
	want("abroad", "82", "dropped")
	c.l.holds(t)
}

// TestSourceRanges lets in who may come to a load balancer's address, and nobody else; node ports are not guarded.
func TestSourceRanges(t *testing.T) {
	c := newTown(t)
	set := func(ranges ...string) {
		name := c.w.service("web", "10.96.0.10", func(s *corev1.Service) {
			s.Spec.Type, s.Spec.Ports[0].NodePort, s.Spec.LoadBalancerSourceRanges = corev1.ServiceTypeLoadBalancer, 30080, ranges
			proxyMode := corev1.LoadBalancerIPModeProxy
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: balancerIP}, {IP: "198.51.100.3", IPMode: &proxyMode}}
		})
		c.w.ends("web", at(podIP, onNodeNamed("n1")))
		c.l.sync(t, c.w, name)
		c.l.holds(t)
	}
	for _, tt := range []struct {
		ranges    []string
		at, wants string
	}{
		{[]string{"203.0.113.0/24"}, balancerIP + ":80", podIP + " saw 10.1.0.1"},
		{[]string{"10.0.0.0/8", " 203.0.113.9/32"}, balancerIP + ":80", podIP + " saw 10.1.0.1"},
		{[]string{"10.0.0.0/8"}, balancerIP + ":80", "dropped"},
		{[]string{"10.0.0.0/8"}, nodeIP + ":30080", podIP + " saw 10.1.0.1"},
		{[]string{"10.0.0.0/8", "0.0.0.0/0"}, balancerIP + ":80", podIP + " saw 10.1.0.1"},
	} {
		set(tt.ranges...)
		if got := c.from("abroad", tt.at, tt.wants); got != tt.wants {
			t.Errorf("%v: abroad to %s: %s, want %s", tt.ranges, tt.at, got, tt.wants)
		}
	}
	for s := range c.l.book.claims {
		if s.ip == netip.MustParseAddr("198.51.100.3") {
			t.Error("an address of mode Proxy is caught")
		}
	}
}
