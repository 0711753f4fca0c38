package proxy

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// TestNodeAddressAsBalancer: a service that has the node's own address serves its port there, and not the port of a program.
func TestNodeAddressAsBalancer(t *testing.T) {
	c := newTown(t)
	balanced := func(ip string, port int32) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Spec.Type = corev1.ServiceTypeLoadBalancer
			s.Spec.Ports[0].Port = port
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		}
	}
	c.w.service("web", "10.96.0.1", balanced(nodeIP, 80))
	c.w.ends("web", at(podIP, onNodeNamed("n1")))
	c.w.service("ssh", "10.96.0.2", balanced(nodeIP, 22))
	c.w.ends("ssh", at(podIP, onNodeNamed("n1")))
	n := c.w.others[kinds.Nodes][0].(*corev1.Node)
	n.Annotations = map[string]string{wellknown.TakenPortsAnnotation: "22/TCP,6443/TCP"}
	answer(t, nodeIP+":22")
	c.l.replan(c.w)
	if _, err := c.l.act(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ from, at, want string }{
		{"abroad", nodeIP + ":80", podIP + " saw 10.1.0.1"},
		{"node", nodeIP + ":80", podIP + " saw 10.1.0.1"},
		{"abroad", nodeIP + ":22", nodeIP + ":22 saw " + abroadIP},
		{"abroad", "10.96.0.2:22", podIP + " saw 10.1.0.1"},
	} {
		if got := c.from(tt.from, tt.at, tt.want); got != tt.want {
			t.Errorf("%s to %s: %s, want %s", tt.from, tt.at, got, tt.want)
		}
	}
}

// TestTranslatedAddress: a node whose address from outside is translated on the way catches what arrives at its own.
func TestTranslatedAddress(t *testing.T) {
	w := newWorld()
	w.others[kinds.Nodes] = []resource.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP}, {Type: corev1.NodeExternalIP,
			Address: "198.51.100.7"}}}}}
	name := w.service("web", "10.96.0.1", func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.7"}, {IP: "198.51.100.8"}}
	})
	h := newHere(&Config{Node: "n1"}, w, nil)
	got := map[netip.Addr]bool{}
	for _, cl := range plan(w, name, &h).claims {
		got[cl.at.ip] = cl.kind == loadBalancerIP
	}
	for _, ip := range []string{nodeIP, "198.51.100.7", "198.51.100.8"} {
		if !got[netip.MustParseAddr(ip)] {
			t.Errorf("nothing is caught at %s: %v", ip, got)
		}
	}
}
