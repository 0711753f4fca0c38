package dns

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// TestMetrics asks over real sockets and reads the pages as Prometheus does: CoreDNS's names, and every question and answer once.
func TestMetrics(t *testing.T) {
	up := newUpstream(t, addressed("192.0.2.1", 300))
	s := through(t, map[string][]string{"broken.example": {"127.0.0.1:1"}}, up)
	l, at := listenAnywhere(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.serve(ctx, s) }()
	for _, q := range []struct {
		network, name string
		typ           dnsmessage.Type
	}{
		{"udp", "web.shop.svc.cluster.local", dnsmessage.TypeA},
		{"udp", "web.shop.svc.cluster.local", dnsmessage.TypeAAAA},
		{"tcp", "_http._tcp.web.shop.svc.cluster.local", dnsmessage.TypeSRV},
		{"udp", "no.shop.svc.cluster.local", dnsmessage.TypeHINFO},
		{"udp", "www.example.com", dnsmessage.TypeA},
		{"udp", "www.example.com", dnsmessage.TypeA},
		{"udp", "www.broken.example", dnsmessage.TypeA},
	} {
		exchange(t, dial(t, q.network, at.String()), asked(t, q.name, q.typ, 0))
	}
	cancel()
	if err := <-done; err != nil { // what was answered is counted by then
		t.Error(err)
	}
	page := func(path string) string {
		w := httptest.NewRecorder()
		s.mux().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
		return w.Body.String()
	}
	told := page("/metrics")
	for _, want := range []string{
		`coredns_dns_requests_total{family="1",proto="udp",type="A"} 4`,
		`coredns_dns_requests_total{family="1",proto="udp",type="AAAA"} 1`,
		`coredns_dns_requests_total{family="1",proto="udp",type="other"} 1`,
		`coredns_dns_requests_total{family="1",proto="tcp",type="SRV"} 1`,
		`coredns_dns_responses_total{rcode="NOERROR"} 5`,
		`coredns_dns_responses_total{rcode="NXDOMAIN"} 1`,
		`coredns_dns_responses_total{rcode="SERVFAIL"} 1`,
		`coredns_dns_request_duration_seconds_count{proto="udp"} 6`,
		`coredns_cache_hits_total 1`,
		`coredns_cache_misses_total 2`,
		fmt.Sprintf(`coredns_forward_requests_total{to="%s"} 1`, up.at),
		`coredns_forward_failures_total{to="127.0.0.1:1"}`,
	} {
		if !strings.Contains(told, "\n"+want) {
			t.Errorf("no %s in\n%s", want, told)
		}
	}
	for _, path := range []string{"/health", "/ready"} {
		if got := page(path); got != "OK" {
			t.Errorf("%s: %q", path, got)
		}
	}
}
