package netpolicy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/internal/testpolicy"
)

// judged is a small cluster: web and db in shop, ops/prom, a pod on the host's network, one that has ended.
func judged() testpolicy.Snapshot {
	s := testpolicy.Snapshot{}
	s.Node("n1", "10.9.0.1")
	s.Node("n2", "10.9.0.2")
	s.Space("ops", map[string]string{"team": "ops"})
	s.Space("shop", nil)
	s.Pod("ops", "prom", "n2", map[string]string{"app": "prom"}, "10.1.0.3")
	s.Pod("shop", "db", "n2", map[string]string{"app": "db"}, "10.1.0.2", "fd01::2")
	s.Pod("shop", "done", "n2", map[string]string{"app": "web"}, "10.1.0.7").Status.Phase = corev1.PodSucceeded
	s.Pod("shop", "host", "n2", map[string]string{"app": "web"}, "10.9.0.2").Spec.HostNetwork = true
	s.Pod("shop", "web", "n1", map[string]string{"app": "web"}, "10.1.0.1", "fd01::1")
	return s
}

// TestJudge has one row for each sentence of the API's documentation that says who may connect.
func TestJudge(t *testing.T) {
	const web, db, prom, outside, node1, node2, ended = "10.1.0.1", "10.1.0.2", "10.1.0.3", "192.0.2.1", "10.9.0.1", "10.9.0.2", "10.1.0.7"
	for _, c := range []struct {
		name, policy string // the spec, in the namespace shop
		from, to     string
		protocol     corev1.Protocol
		port         uint16
		want         bool
	}{
		{"no policy", "", outside, db, "TCP", 80, true},
		{"selected without rules", "podSelector: {}", web, db, "TCP", 80, false},
		{"selected for ingress only", "podSelector: {}", db, outside, "TCP", 80, true},
		{"another namespace's pods are not selected", "podSelector: {}", db, prom, "TCP", 80, true},
		{"own namespace by podSelector",
			"{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}", web, db, "TCP", 80, true},
		{"podSelector is of the own namespace", "{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}", prom, db, "TCP", 80, false},
		{"namespaceSelector",
			"{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: ops}}}]}]}", prom, db, "TCP", 80, true},
		{"namespaces by an expression", "{podSelector: {}, ingress: [{from: [{namespaceSelector: " +
			"{matchExpressions: [{key: team, operator: In, values: [ops, dev]}]}}]}]}", prom, db, "TCP", 80, true},
		{"all namespaces but for some", "{podSelector: {}, ingress: [{from: [{namespaceSelector: " +
			"{matchExpressions: [{key: team, operator: NotIn, values: [ops]}]}}]}]}", prom, db, "TCP", 80, false},
		{"pods by an expression", "{podSelector: {matchExpressions: [{key: app, operator: Exists}]}, ingress: [{from: [{podSelector: " +
			"{matchExpressions: [{key: app, operator: NotIn, values: [db]}]}}]}]}", web, db, "TCP", 80, true},
		{"one of two peers is enough",
			"{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: ops}}}, {podSelector: {}}]}]}", prom, db, "TCP", 80, true},
		{"both directions in one policy", "{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}]}", db, prom, "TCP", 80, false},
		{"both selectors must match",
			"{podSelector: {}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}]}]}", prom, db, "TCP", 80, false},
		{"an empty rule allows all", "{podSelector: {}, ingress: [{}]}", outside, db, "SCTP", 9, true},
		{"a block", "{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24}}]}]}", outside, db, "TCP", 80, true},
		{"a block but for",
			"{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.1/32]}}]}]}", outside, db, "TCP", 80, false},
		{"another rule lets the excepted in",
			"{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.1/32]}}, " +
				"{ipBlock: {cidr: 192.0.2.1/32}}]}]}", outside, db, "TCP", 80, true},
		{"a block matches pods too", "{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.1.0.0/16}}]}]}", web, db, "TCP", 80, true},
		{"a port", "{podSelector: {}, ingress: [{ports: [{port: 80}]}]}", web, db, "TCP", 80, true},
		{"the protocol is TCP if none is said", "{podSelector: {}, ingress: [{ports: [{port: 80}]}]}", web, db, "UDP", 80, false},
		{"SCTP is not TCP", "{podSelector: {}, ingress: [{ports: [{port: 80, protocol: SCTP}]}]}", web, db, "TCP", 80, false},
		{"a whole protocol", "{podSelector: {}, ingress: [{ports: [{protocol: UDP}]}]}", web, db, "UDP", 5, true},
		{"a range", "{podSelector: {}, ingress: [{ports: [{port: 80, endPort: 90}]}]}", web, db, "TCP", 90, true},
		{"behind a range", "{podSelector: {}, ingress: [{ports: [{port: 80, endPort: 90}]}]}", web, db, "TCP", 91, false},
		{"a named port of the destination", "{podSelector: {}, ingress: [{ports: [{port: http}]}]}", web, db, "TCP", 80, true},
		{"a named port has a protocol", "{podSelector: {}, ingress: [{ports: [{port: dns}]}]}", web, db, "TCP", 81, false},
		{"a named port of a peer", "{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: http}]}]}", web, prom, "TCP", 80, true},
		{"nobody outside has named ports",
			"{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: http}]}]}", web, outside, "TCP", 80, false},
		{"egress rules isolate for egress",
			"{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.1.0.3/32}}]}]}", web, outside, "TCP", 80, false},
		{"policyTypes Egress alone leaves ingress", "{podSelector: {}, policyTypes: [Egress]}", prom, db, "TCP", 80, true},
		{"both ends are asked",
			"{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], " +
				"egress: [{to: [{podSelector: {matchLabels: {app: db}}}]}]}", web, db, "TCP", 80, true},
		{"a pod reaches itself", "{podSelector: {}, policyTypes: [Ingress, Egress]}", web, web, "TCP", 80, true},
		{"a node reaches its own pods", "podSelector: {}", node1, web, "TCP", 80, true},
		{"another node does not", "podSelector: {}", node2, web, "TCP", 80, false},
		{"a pod reaches its own node", "{podSelector: {}, policyTypes: [Egress]}", web, node1, "UDP", 53, true},
		{"a pod on the host's network is no subject", "podSelector: {}", web, node2, "TCP", 80, true},
		{"nor a peer of a selector", "{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}", node2, web, "TCP", 80, false},
		{"a pod that has ended is nobody", "{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}", ended, db, "TCP", 80, false},
		{"IPv6", "{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}", "fd01::1", "fd01::2", "TCP", 80, true},
		{"IPv6 from elsewhere",
			"{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}", "fd01::9", "fd01::2", "TCP", 80, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := judged()
			if c.policy != "" {
				var spec networkingv1.NetworkPolicySpec
				if err := yaml.UnmarshalStrict([]byte(c.policy), &spec); err != nil {
					t.Fatal(err)
				}
				s.Policy("shop", "p", spec)
			}
			con := Connection{addr(c.from), addr(c.to), c.protocol, c.port}
			if v := NewModel(s, nil, nil).Judge(con); v.Allowed != c.want {
				t.Errorf("%v: allowed is %v, want %v: %s", con, v.Allowed, c.want, v.Explain())
			}
		})
	}
}

// TestPoliciesAddUp: what one policy allows no other takes away, and both are named.
func TestPoliciesAddUp(t *testing.T) {
	s := judged()
	s.Policy("shop", "deny", networkingv1.NetworkPolicySpec{})
	port := intstr.FromInt32(80)
	s.Policy("shop", "web", networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}}}})
	m := NewModel(s, nil, nil)
	v := m.Judge(Connection{addr("10.1.0.1"), addr("10.1.0.2"), corev1.ProtocolTCP, 80})
	if !v.Allowed || v.Ingress.By != "shop/web" {
		t.Errorf("port 80: %+v", v)
	}
	v = m.Judge(Connection{addr("10.1.0.1"), addr("10.1.0.2"), corev1.ProtocolTCP, 81})
	if v.Allowed || !strings.Contains(v.Explain(), "shop/deny, shop/web") {
		t.Errorf("port 81: %s", v.Explain())
	}
}

// TestUpcoming: a pod whose status shows no address yet is judged by the address of its sandbox.
func TestUpcoming(t *testing.T) {
	s := judged()
	s.Policy("shop", "deny", networkingv1.NetworkPolicySpec{})
	p := s.Pod("shop", "zz", "n1", nil)
	known := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "unseen", UID: "new"}}
	m := NewModel(s, Upcoming{p.UID: {p, []netip.Addr{addr("10.1.0.8")}}, "new": {known, []netip.Addr{addr("10.1.0.9")}}}, nil)
	for _, to := range []string{"10.1.0.8", "10.1.0.9"} {
		if v := m.Judge(Connection{addr("10.1.0.1"), addr(to), corev1.ProtocolTCP, 80}); v.Allowed {
			t.Errorf("%s is reached before its policies are in force: %s", to, v.Explain())
		}
	}
}

// TestUpcomingAgain: a pod whose sandbox was made anew is judged by its new address, and not by the one that its status still shows, until
// that shows the new one.
func TestUpcomingAgain(t *testing.T) {
	for _, c := range []struct {
		name, shows string
		left        int
	}{{"nothing", "", 1}, {"the former address", "10.1.0.7", 1}, {"the new one", "10.1.0.8", 0}} {
		t.Run(c.name, func(t *testing.T) {
			s := judged()
			s.Policy("shop", "deny", networkingv1.NetworkPolicySpec{})
			p := s.Pod("shop", "zz", "n1", nil)
			if c.shows != "" {
				p.Status.PodIPs = []corev1.PodIP{{IP: c.shows}}
			}
			now := &state{read: s, upcoming: Upcoming{p.UID: {p, []netip.Addr{addr("10.1.0.8")}}}}
			now.settled()
			if len(now.upcoming) != c.left {
				t.Errorf("%d pods wait for their status", len(now.upcoming))
			}
			m := NewModel(s, now.upcoming, nil)
			if v := m.Judge(Connection{addr("10.1.0.1"), addr("10.1.0.8"), corev1.ProtocolTCP, 80}); v.Allowed {
				t.Error("it is reached before its policies are in force:", v.Explain())
			}
			if v := m.Judge(Connection{addr("10.1.0.1"), addr("10.1.0.7"), corev1.ProtocolTCP, 80}); !v.Allowed {
				t.Error("its former address may be another's by now:", v.Explain())
			}
		})
	}
}

func (c Connection) String() string {
	return fmt.Sprintf("%s → %s %s/%d", c.From, c.To, c.Protocol, c.Port)
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
