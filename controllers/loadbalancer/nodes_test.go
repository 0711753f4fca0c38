package loadbalancer

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/wellknown"
)

func service(name string, age int, ports ...int32) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		CreationTimestamp: metav1.Time{Time: time.Unix(1_000_000-int64(age), 0)}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.1",
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}}
	for _, p := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: p, Protocol: corev1.ProtocolTCP})
	}
	return s
}

func node(name, taken string, addrs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{},
		Annotations: map[string]string{wellknown.TakenPortsAnnotation: taken}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	for _, a := range addrs {
		typ := corev1.NodeInternalIP
		if rest, external := strings.CutPrefix(a, "external "); external {
			typ, a = corev1.NodeExternalIP, rest
		}
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: typ, Address: a})
	}
	return n
}

func with[T any](obj T, f func(T)) T {
	f(obj)
	return obj
}

// line is a decision in one line.
func (d decision) line() string {
	if d.drop {
		return d.service.Name + ": dropped"
	}
	text := d.service.Name + ": " + strings.Join(d.ips, " ") + " " + d.address.reason
	if d.announced.reason != "" {
		text += " " + d.announced.reason
	}
	return text
}

func lines(list []decision) string {
	var out []string
	for _, d := range list {
		out = append(out, d.line())
	}
	return strings.Join(out, "\n")
}

func TestNodeAddresses(t *testing.T) {
	local := func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }
	two := []*corev1.Node{node("a", "22/TCP,6443/TCP", "10.0.0.1", "fd00::1"), node("b", "22/TCP", "10.0.0.2", "fd00::2")}
	for _, tt := range []struct {
		name     string
		services []*corev1.Service
		nodes    []*corev1.Node
		on       string // nodes with endpoints
		want     string
		says     string
	}{
		{"all nodes", []*corev1.Service{service("web", 1, 80)}, two, "", "web: 10.0.0.1 10.0.0.2 NodeAddresses", "2 of 2 nodes"},
		{"no nodes", []*corev1.Service{service("web", 1, 80)}, nil, "", "web:  NoNode", "there is no node"},
		{"the older has the port", []*corev1.Service{service("young", 1, 80), service("old", 9, 80)}, two, "",
			"old: 10.0.0.1 10.0.0.2 NodeAddresses\nyoung:  PortsTaken", ""},
		{"the younger has it already", []*corev1.Service{with(service("young", 1, 80), func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
		}), service("old", 9, 80)}, two, "", "young: 10.0.0.1 10.0.0.2 NodeAddresses\nold:  PortsTaken", ""},
		{"another port", []*corev1.Service{service("young", 1, 81), service("old", 9, 80)}, two, "",
			"old: 10.0.0.1 10.0.0.2 NodeAddresses\nyoung: 10.0.0.1 10.0.0.2 NodeAddresses", ""},
		{"a program of one node has it", []*corev1.Service{service("api", 1, 6443)}, two, "", "api: 10.0.0.2 NodeAddresses",
			"1 of 2 nodes"},
		{"programs of all nodes have it", []*corev1.Service{service("git", 1, 80, 22)}, two, "", "git:  PortsTaken",
			"2 where port 22/TCP belongs to a program of the node"},
		{"local", []*corev1.Service{with(service("web", 1, 80), local)}, two, "b", "web: 10.0.0.2 NodeAddresses", ""},
		{"local, no endpoint", []*corev1.Service{with(service("web", 1, 80), local)}, two, "", "web:  NoLocalEndpoint",
			"2 without an endpoint"},
		{"excluded", []*corev1.Service{service("web", 1, 80)}, []*corev1.Node{two[0], with(node("c", "", "10.0.0.3"), func(n *corev1.Node) {
			n.Labels[corev1.LabelNodeExcludeBalancers] = ""
		})}, "", "web: 10.0.0.1 NodeAddresses", ""},
		{"all excluded", []*corev1.Service{service("web", 1, 80)}, []*corev1.Node{with(node("c", "", "10.0.0.3"), func(n *corev1.Node) {
			n.Labels[corev1.LabelNodeExcludeBalancers] = "true"
		})}, "", "web:  NoNode", "1 with the label node.kubernetes.io/exclude-from-external-load-balancers"},
		{"not ready, no agent", []*corev1.Service{service("web", 1, 80)}, []*corev1.Node{with(node("c", "", "10.0.0.3"),
			func(n *corev1.Node) {
				n.Status.Conditions = nil
			}), with(node("d", "", "10.0.0.4"), func(n *corev1.Node) { n.Annotations = nil })}, "", "web:  NoNode",
			"none of 2 nodes qualifies: 1 not ready; 1 without an agent that serves load balancers"},
		{"external addresses", []*corev1.Service{service("web", 1, 80)}, []*corev1.Node{two[0],
			node("c", "", "10.0.0.3", "external 192.0.2.3")}, "",
			"web: 192.0.2.3 NodeAddresses", ""},
		{"two families", []*corev1.Service{with(service("web", 1, 80), func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		})}, two, "", "web: fd00::1 fd00::2 10.0.0.1 10.0.0.2 NodeAddresses", ""},
		{"a family that no node has", []*corev1.Service{with(service("web", 1, 80), func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
		})}, []*corev1.Node{node("c", "", "10.0.0.3")}, "", "web:  NoNode", "no node has an address of the service's family"},
		{"a bad annotation takes nothing", []*corev1.Service{service("web", 1, 80)},
			[]*corev1.Node{node("c", "x/TCP,/,80,99999/TCP", "10.0.0.3")}, "",
			"web: 10.0.0.3 NodeAddresses", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{services: tt.services, nodes: tt.nodes, ends: map[*corev1.Service]backends{}}
			for _, s := range tt.services {
				if tt.on != "" {
					w.ends[s] = backends{true, strings.Fields(tt.on)}
				}
			}
			w.sort()
			got, _, _ := plan(w)
			if lines(got) != tt.want || !strings.Contains(got[len(got)-1].address.says, tt.says) {
				t.Errorf("got\n%s (%s), want\n%s (%s)", lines(got), got[len(got)-1].address.says, tt.want, tt.says)
			}
		})
	}
}

func TestLeftToOthers(t *testing.T) {
	mine := with(service("mine", 1, 80), func(s *corev1.Service) {
		s.Status.Conditions = []metav1.Condition{{Type: wellknown.AddressCondition}}
	})
	w := &world{mode: None, services: []*corev1.Service{mine, service("new", 2, 80)}, former: []*corev1.Service{service("former", 3, 80)}}
	if list, _, _ := plan(w); lines(list) != "former: dropped\nmine: dropped" {
		t.Error(lines(list))
	}
}
