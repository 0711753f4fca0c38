package proxy

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func TestExplain(t *testing.T) {
	w := newWorld()
	w.others[kinds.Nodes] = []resource.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec:   corev1.NodeSpec{PodCIDR: "10.1.0.0/24"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}}
	w.service("web", "10.96.0.10", sticky(60), func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
		s.Spec.Ports[0].NodePort, s.Spec.HealthCheckNodePort = 30080, 30999
		s.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24"}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.1"}}
	})
	w.ends("web", at("10.1.0.2", onNodeNamed("n1")), at("10.2.0.2", onNodeNamed("n2")))
	w.service("empty", "10.96.0.11", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"10.96.0.10", "192.0.2.9"} })
	w.service("away", "10.96.0.12", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30081 })
	w.ends("away", at("10.2.0.2", onNodeNamed("n2")))
	var got strings.Builder
	must(t, Explain(&got, w, Config{Node: "n1", Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}))
	const want = `services on node n1
  zone               unknown: hints for zones don't count
  cluster IPs        10.96.0.0/16
  pods of this node  10.1.0.0/24
  node ports at      192.0.2.1

service d/away
  cluster IP     10.96.0.12:80/TCP            10.2.0.2:8080
  node port      192.0.2.1:30081/TCP          10.2.0.2:8080; with this node's address as source

service d/empty
  cluster IP     10.96.0.11:80/TCP            refused: no endpoints
  external IP    10.96.0.10:80/TCP            another service has this address
  external IP    192.0.2.9:80/TCP             refused: no endpoints

service d/web
  cluster IP     10.96.0.10:80/TCP            10.1.0.2:8080, 10.2.0.2:8080; a client stays for 60 s
  node port      192.0.2.1:30080/TCP          LOCAL
  load balancer  198.51.100.1:80/TCP          LOCAL; only from 203.0.113.0/24
  health check   30999                        1 ready here
`
	local := "from this node and its pods: 10.1.0.2:8080, 10.2.0.2:8080; others: 10.1.0.2:8080; a client stays for 60 s"
	if want := strings.ReplaceAll(want, "LOCAL", local); got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}
