package proxy

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kloop-dev/kloop/test/port"
)

// TestHealthCheckNodePort asks as a load balancer does.
func TestHealthCheckNodePort(t *testing.T) {
	w := newWorld()
	held := netip.MustParseAddrPort(port.Held(t))
	name := w.service("web", "10.96.0.10", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
		s.Spec.HealthCheckNodePort = int32(held.Port())
	})
	b := newBook(here{node: "n1", nodePorts: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
	h := newHealthPorts(nil)
	t.Cleanup(h.close)
	h.rules.Store(true)
	ask := func() (int, map[string]any) {
		t.Helper()
		must(t, h.follow(b))
		res, err := http.Get("http://" + held.String() + "/")
		must(t, err)
		defer res.Body.Close()
		var body map[string]any
		must(t, json.NewDecoder(res.Body).Decode(&body))
		if got := res.Header.Get("X-Load-Balancing-Endpoint-Weight"); got != strconv.Itoa(int(body["localEndpoints"].(float64))) {
			t.Errorf("weight %q beside %v", got, body)
		}
		return res.StatusCode, body
	}
	for _, tt := range []struct {
		ends         []discoveryv1.Endpoint
		code, weight int
	}{
		{nil, 503, 0},
		{[]discoveryv1.Endpoint{at("10.1.0.1", onNodeNamed("n2"))}, 503, 0},
		{[]discoveryv1.Endpoint{at("10.1.0.1", onNodeNamed("n1")), at("10.1.0.2", onNodeNamed("n1")), at("10.1.0.3", onNodeNamed("n2"))}, 200, 2},
		{[]discoveryv1.Endpoint{at("10.1.0.1", onNodeNamed("n1")), at("fd00::1", onNodeNamed("n1"))}, 200, 1}, // a pod of both families
		{[]discoveryv1.Endpoint{at("fd00::1", onNodeNamed("n1")), at("fd00::2", onNodeNamed("n1"))}, 200, 2},
		{[]discoveryv1.Endpoint{at("10.1.0.1", onNodeNamed("n1"), terminating)}, 503, 0},
	} {
		w.ends("web", tt.ends...)
		b.update(w, name)
		if code, body := ask(); code != tt.code || int(body["localEndpoints"].(float64)) != tt.weight {
			t.Errorf("%d endpoints: %d %v, want %d with %d", len(tt.ends), code, body, tt.code, tt.weight)
		}
	}
	w.ends("web", at("10.1.0.1", onNodeNamed("n1")))
	b.update(w, name)
	h.rules.Store(false)
	if code, body := ask(); code != http.StatusServiceUnavailable || body["serviceProxyHealthy"] != false {
		t.Errorf("while the rules are not in place: %d %v", code, body)
	}
	delete(w.services, name)
	b.update(w, name)
	must(t, h.follow(b))
	if len(h.open) != 0 {
		t.Error("the port stays open without its service")
	}
}
