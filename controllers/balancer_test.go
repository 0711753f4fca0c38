package controllers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// reached are the addresses from outside of a service, and the reason of its condition.
func reached(r resource.Reader, name string) string {
	s := resource.Get(r, kinds.Services, "default", name)
	var words []string
	for _, in := range s.Status.LoadBalancer.Ingress {
		words = append(words, in.IP)
	}
	for _, c := range s.Status.Conditions {
		if c.Type == wellknown.AddressCondition {
			words = append(words, c.Reason)
			if n, _, ok := strings.Cut(strings.TrimPrefix(c.Message, "has the addresses of "), " of"); ok && c.Status == "True" {
				words = append(words, n)
			}
		}
	}
	return strings.Join(words, " ")
}

func TestLoadBalancerByNodes(t *testing.T) {
	simulate(t, 2, func(c *cluster) {
		balancer := func(name string, port int32) *corev1.Service {
			return make1(c, kinds.Services, &corev1.Service{ObjectMeta: meta(name),
				Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer,
					Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: port}}}})
		}
		is := func(name, want string) {
			t.Helper()
			c.until(name+" has "+want, func(r resource.Reader) bool { return reached(r, name) == want })
		}
		balancer("web", 80)
		is("web", wellknown.LBNoNode)
		const addr = "203.0.113.10 " // of all simulated nodes
		for i, taken := range []string{"22/TCP,443/TCP", ""} {
			name := fmt.Sprintf("sim-%d", i)
			edit(c, kinds.Nodes, "", name, "", func(n *corev1.Node) {
				n.Annotations = map[string]string{wellknown.TakenPortsAnnotation: taken}
			})
		}
		both := addr + wellknown.LBNodeAddresses + " 2"
		is("web", both)
		balancer("tls", 443)
		is("tls", addr+wellknown.LBNodeAddresses+" 1")
		balancer("second", 80)
		is("second", wellknown.LBPortsTaken)
		edit(c, kinds.Services, "default", "web", "", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		is("web", "")
		is("second", both)
		class := "example.com/other"
		make1(c, kinds.Services, &corev1.Service{ObjectMeta: meta("theirs"), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer,
			LoadBalancerClass: &class, Ports: []corev1.ServicePort{{Port: 81}}}})
		edit(c, kinds.Services, "default", "theirs", "status", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}}
		})
		if err := c.Delete(c.t.Context(), kinds.Nodes, "", "sim-0", nil); err != nil {
			c.t.Fatal(err)
		}
		is("second", addr+wellknown.LBNodeAddresses+" 1")
		is("theirs", "192.0.2.9")
	})
}

// TestBareLease has a Lease of an address from which somebody took all annotations: it gets back what it lacks.
func TestBareLease(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		c.until("its holder is ready", func(r resource.Reader) bool { // the Lease of one that is not goes
			n := resource.Get(r, kinds.Nodes, "", "sim-0")
			return n != nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
		})
		make1(c, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: wellknown.AnnounceSpace}})
		make1(c, kinds.Leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: wellknown.AnnounceSpace, Name: "l2-192.0.2.1",
			Labels: map[string]string{wellknown.AnnounceLabel: "layer2"}}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("sim-0")}})
		make1(c, kinds.Services, &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Port: 80}}}})
		c.until("it has no candidate", func(r resource.Reader) bool {
			l := resource.Get(r, kinds.Leases, wellknown.AnnounceSpace, "l2-192.0.2.1")
			return l != nil && l.Annotations[wellknown.AnnouncedCandidates] == "[]"
		})
	})
}
