package clusterdns

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

func node(name, addr, port string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{wellknown.DNSAnnotation: port}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP,
			Address: addr}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

func TestEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		node *corev1.Node
		want end
	}{
		{"ready", node("a", "10.0.0.1", "10053", corev1.ConditionTrue), end{"a", "10.0.0.1", "", 10053, true}},
		{"not known to be ready", node("a", "10.0.0.1", "10053", corev1.ConditionUnknown), end{"a", "10.0.0.1", "", 10053, false}},
		{"IPv6", node("a", "fd00::1", "53", corev1.ConditionTrue), end{"a", "", "fd00::1", 53, true}},
		{"without a port", node("simulated", "10.0.0.1", "", corev1.ConditionTrue), end{}},
		{"port too high", node("a", "10.0.0.1", "70000", corev1.ConditionTrue), end{}},
		{"port zero", node("a", "10.0.0.1", "0", corev1.ConditionTrue), end{}},
		{"address that is none", node("a", "nowhere", "10053", corev1.ConditionTrue), end{"a", "", "", 10053, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := endOf(tt.node); got != tt.want {
				t.Errorf("%v: %v, want %v", tt.node.Annotations, got, tt.want)
			}
		})
	}
}

// text says what a todo does.
func (d todo) text() string {
	var s []string
	if d.create != nil {
		s = append(s, "create "+d.create.Spec.ClusterIP)
	}
	for _, x := range d.make {
		s = append(s, fmt.Sprintf("make %s of %d", x.Name, len(x.Endpoints)))
	}
	for _, x := range d.change {
		s = append(s, fmt.Sprintf("change %s to %d", x.Name, len(x.Endpoints)))
	}
	for _, x := range d.drop {
		s = append(s, "drop "+x.Name)
	}
	if d.remove != nil {
		s = append(s, "remove")
	}
	if d.tell != nil {
		s = append(s, "tell "+d.tell.Annotations[wellknown.DNSCustomAnnotation])
	}
	return strings.Join(s, ", ")
}

func TestPlan(t *testing.T) {
	ips := []netip.Addr{netip.MustParseAddr("10.96.0.10")}
	mine := service(ips)
	theirs := resource.Clone(mine)
	theirs.Spec.Selector = map[string]string{"k8s-app": "kube-dns"}
	other := resource.Clone(mine)
	delete(other.Labels, ours)
	two := []end{{"b", "10.0.0.2", "", 10053, true}, {"a", "10.0.0.1", "", 10053, false}}
	there := wanted(mine, two)
	many := make([]end, 250)
	for i := range many {
		many[i] = end{fmt.Sprintf("n%03d", i), "10.0.0.1", "", 10053, true}
	}
	for _, tt := range []struct {
		name string
		svc  *corev1.Service
		have []*discoveryv1.EndpointSlice
		ends []end
		ips  []netip.Addr
		want string
	}{
		{"no node serves", nil, nil, nil, ips, ""},
		{"the first node serves", nil, nil, two, ips, "create 10.96.0.10"},
		{"the Service is there", mine, nil, two, ips, "make kube-dns-ipv4-10053-0 of 2"},
		{"all is there", mine, there, two, ips, ""},
		{"a node got ready", mine, there, []end{two[0], {"a", "10.0.0.1", "", 10053, true}}, ips, "change kube-dns-ipv4-10053-0 to 2"},
		{"a node went", mine, there, two[:1], ips, "change kube-dns-ipv4-10053-0 to 1"},
		{"the last node went", mine, there, nil, ips, "drop kube-dns-ipv4-10053-0"},
		{"many", mine, nil, many, ips,
			"make kube-dns-ipv4-10053-0 of 100, make kube-dns-ipv4-10053-1 of 100, make kube-dns-ipv4-10053-2 of 50"},
		{"both families, two ports", mine, nil, []end{{"a", "10.0.0.1", "", 10053, true}, {"b", "", "fd00::1", 10053, true},
			{"c", "10.0.0.3", "", 53, true}}, ips,
			"make kube-dns-ipv4-10053-0 of 1, make kube-dns-ipv6-10053-0 of 1, make kube-dns-ipv4-53-0 of 1"},
		{"nodes of both families", mine, nil, []end{{"a", "10.0.0.1", "fd00::1", 10053, true}, {"b", "10.0.0.2", "fd00::2", 10053, true}},
			ips,
			"make kube-dns-ipv4-10053-0 of 2, make kube-dns-ipv6-10053-0 of 2"},
		{"switched off", mine, there, two, nil, "drop kube-dns-ipv4-10053-0, remove"},
		{"CoreDNS took the Service over", theirs, there, two, ips, "drop kube-dns-ipv4-10053-0"},
		{"somebody else's Service", other, nil, two, ips, ""},
		{"somebody else's Service, switched off", theirs, nil, nil, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := plan(tt.svc, tt.have, tt.ends, tt.ips, "").text(); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}

// TestPlanCustom: what the ConfigMap adds stands on our Service, and on nobody else's, until it goes.
func TestPlanCustom(t *testing.T) {
	ips := []netip.Addr{netip.MustParseAddr("10.96.0.10")}
	mine := service(ips)
	ends := []end{{"a", "10.0.0.1", "", 10053, true}}
	there := wanted(mine, ends)
	if got := plan(mine, there, ends, ips, "x").text(); got != "tell x" {
		t.Error(got)
	}
	said := told(mine, "x")
	if got := plan(said, there, ends, ips, "x").text(); got != "" {
		t.Error(got)
	}
	if got := plan(said, there, ends, ips, "").text(); got != "tell " {
		t.Error(got)
	}
	if next := told(said, ""); len(next.Annotations) != len(mine.Annotations) || said.Annotations[wellknown.DNSCustomAnnotation] != "x" {
		t.Error(next.Annotations)
	}
	theirs := resource.Clone(mine)
	theirs.Spec.Selector = map[string]string{"k8s-app": "kube-dns"}
	if got := plan(theirs, nil, ends, ips, "x").text(); got != "" {
		t.Error(got)
	}
}
