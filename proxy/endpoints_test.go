package proxy

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func hint(zone, node string) func(*discoveryv1.Endpoint) {
	return func(e *discoveryv1.Endpoint) {
		e.Hints = &discoveryv1.EndpointHints{}
		if zone != "" {
			e.Hints.ForZones = []discoveryv1.ForZone{{Name: zone}}
		}
		if node != "" {
			e.Hints.ForNodes = []discoveryv1.ForNode{{Name: node}}
		}
	}
}

// TestEndpointsOfPolicies picks endpoints for the node n1 in zone a.
func TestEndpointsOfPolicies(t *testing.T) {
	n1, n2 := onNodeNamed("n1"), onNodeNamed("n2")
	h := &here{node: "n1", zone: "a"}
	for _, tt := range []struct {
		name        string
		ends        []discoveryv1.Endpoint
		cluster     string // last parts of the addresses
		local       string
		otherZone   string // of the cluster's on a node whose zone nobody is hinted for
		otherFamily bool
	}{
		{"none", nil, "", "", "", false},
		{"ready ones", []discoveryv1.Endpoint{at("10.0.0.2", n2), at("10.0.0.1", n1)}, "1 2", "1", "1 2", false},
		{"one is not ready", []discoveryv1.Endpoint{at("10.0.0.1", n1, unready), at("10.0.0.2", n2)}, "2", "", "2", false},
		{"one is ending", []discoveryv1.Endpoint{at("10.0.0.1", n1, terminating), at("10.0.0.2", n2)}, "2", "1", "2", false},
		{"all are ending", []discoveryv1.Endpoint{at("10.0.0.1", n1, terminating), at("10.0.0.2", n2, terminating)}, "1 2", "1", "1 2", false},
		{"one in two slices at once", []discoveryv1.Endpoint{at("10.0.0.1", n1, unready), at("10.0.0.1", n1)}, "1", "1", "1", false},
		{"zones", []discoveryv1.Endpoint{at("10.0.0.1", n2, hint("a", "")), at("10.0.0.2", n1, hint("b", ""))}, "1", "2", "1 2", false},
		{"one without a hint", []discoveryv1.Endpoint{at("10.0.0.1", n2, hint("a", "")), at("10.0.0.2", n1)}, "1 2", "2", "1 2", false},
		{"nodes before zones", []discoveryv1.Endpoint{at("10.0.0.1", n1, hint("a", "n1")), at("10.0.0.2", n2, hint("a", "n2"))},
			"1", "1", "1 2", false},
		{"no node hinted: zones", []discoveryv1.Endpoint{at("10.0.0.1", n2, hint("a", "n2")), at("10.0.0.2", n2, hint("b", "n3"))},
			"1", "", "1 2", false},
		{"hints of one that is not ready", []discoveryv1.Endpoint{at("10.0.0.1", n2, hint("a", "")), at("10.0.0.2", n2, unready)},
			"1", "", "1", false},
		{"the other family", []discoveryv1.Endpoint{at("10.0.0.1", n1), at("fd00::7", n1)}, "7", "7", "7", true},
	} {
		w := newWorld()
		name := w.service("web", "10.96.0.1")
		w.ends("web", tt.ends...)
		all := portEndpoints(w.slices[name], "", corev1.ProtocolTCP, tt.otherFamily)
		last := func(list []endpoint) string {
			var out []string
			for _, a := range targets(list) {
				text := a.Addr().String()
				out = append(out, text[strings.LastIndexAny(text, ".:")+1:])
			}
			slices.Sort(out)
			return strings.Join(out, " ")
		}
		if got := last(everywhere(all, h)); got != tt.cluster {
			t.Errorf("%s: policy Cluster: %s, want %s", tt.name, got, tt.cluster)
		}
		if got := last(onNode(all, "n1")); got != tt.local {
			t.Errorf("%s: policy Local: %s, want %s", tt.name, got, tt.local)
		}
		if got := last(everywhere(all, &here{node: "n9", zone: "z"})); got != tt.otherZone {
			t.Errorf("%s: policy Cluster in another zone: %s, want %s", tt.name, got, tt.otherZone)
		}
	}
}

// TestNotProxied leaves alone what is not ours.
func TestNotProxied(t *testing.T) {
	for what, edit := range map[string]func(*corev1.Service){
		"headless": func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		},
		"without IP":     func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil },
		"external name":  func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		"headless label": func(s *corev1.Service) { s.Labels = map[string]string{"service.kubernetes.io/headless": ""} },
		"other proxy":    func(s *corev1.Service) { s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "x"} },
	} {
		w := newWorld()
		if s := plan(w, w.service("web", "10.96.0.1", edit), &here{}); s != nil {
			t.Errorf("%s: %v", what, s.claims)
		}
	}
}

// TestNotProxiedEndpoints leaves alone endpoints that are not ours.
func TestNotProxiedEndpoints(t *testing.T) {
	for label, want := range map[string]bool{"x": true, corev1.IsHeadlessService: false, "service.kubernetes.io/service-proxy-name": false} {
		w := newWorld()
		h := smallTown()
		name := w.service("web", "10.96.0.1")
		w.ends("web", at("10.1.0.1"))
		for _, s := range w.slices[name] {
			s.Labels = map[string]string{discoveryv1.LabelServiceName: name.Name, label: ""}
		}
		ends := 0
		for _, l := range plan(w, name, &h).lists {
			ends += len(l.ends)
		}
		if (ends > 0) != want {
			t.Errorf("labelled %s: %d endpoints", label, ends)
		}
	}
}

// TestStrands clears flows of UDP only when some may lead astray: conntrack is large.
func TestStrands(t *testing.T) {
	w := newWorld()
	h := smallTown()
	udp := func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }
	with := func(edit func(*corev1.Service), ends ...string) *service {
		name := w.service("dns", "10.96.0.10", edit)
		var list []discoveryv1.Endpoint
		for _, e := range ends {
			list = append(list, at(e))
		}
		w.ends("dns", list...)
		return plan(w, name, &h)
	}
	tcp := func(*corev1.Service) {}
	none, one, two := with(udp), with(udp, "10.1.0.1"), with(udp, "10.1.0.1", "10.1.0.2")
	for _, tt := range []struct {
		what     string
		old, now *service
		want     bool
	}{
		{"first seen", nil, one, true}, {"gone", one, nil, true}, {"its first endpoint", none, one, true}, {"its last endpoint", one, none, true},
		{"one more", one, two, false}, {"one less", two, one, true}, {"as it was", one, one, false},
		{"TCP", with(tcp, "10.1.0.1"), with(tcp), false}, {"TCP first seen", nil, with(tcp), false}, {"nothing", nil, nil, false},
	} {
		if got := strands(tt.old, tt.now); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
		}
	}
}

// TestNodePortAddresses picks from the machine's addresses.
func TestNodePortAddresses(t *testing.T) {
	own := addrs("192.0.2.1", "fd00::1")
	machine := addrs("127.0.0.1", "::1", "192.0.2.1", "10.9.0.1", "fd00::1", "fe80::1", "198.51.100.1")
	for _, tt := range []struct{ words, want string }{
		{"", "192.0.2.1, fd00::1"}, {"primary", "192.0.2.1, fd00::1"}, {"10.0.0.0/8", "10.9.0.1"},
		{"primary 10.0.0.0/8", "10.9.0.1, 192.0.2.1, fd00::1"},
		{"0.0.0.0/0", "10.9.0.1, 192.0.2.1, 198.51.100.1"}, {"::/0", "fd00::1"}, {"127.0.0.0/8", ""},
	} {
		if got := commas(nodePortAddresses(strings.Fields(tt.words), own, machine)); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.words, got, tt.want)
		}
	}
}
