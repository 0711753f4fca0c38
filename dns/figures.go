package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// figures are the server's metrics, named as CoreDNS's, so that its dashboards and alerts show them.
type figures struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	responses *prometheus.CounterVec
	took      *prometheus.HistogramVec
	hits      prometheus.Counter
	misses    prometheus.Counter
	forwards  *prometheus.CounterVec
	failures  *prometheus.CounterVec
}

func newFigures() *figures {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "coredns", Name: name, Help: help}, labels)
	}
	f := &figures{registry: prometheus.NewRegistry(),
		requests:  counter("dns_requests_total", "Questions.", "proto", "family", "type"),
		responses: counter("dns_responses_total", "Answers.", "rcode"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "coredns", Name: "dns_request_duration_seconds",
			Help: "Time from a question to its answer.", Buckets: prometheus.ExponentialBuckets(0.000025, 4, 10)}, []string{"proto"}),
		hits: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "coredns", Name: "cache_hits_total",
			Help: "Answers of others from the cache."}),
		misses: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "coredns", Name: "cache_misses_total",
			Help: "Questions that others were asked."}),
		forwards: counter("forward_requests_total", "Questions to name servers.", "to"),
		failures: counter("forward_failures_total", "Questions that a name server did not answer.", "to"),
	}
	f.registry.MustRegister(f.requests, f.responses, f.took, f.hits, f.misses, f.forwards, f.failures)
	return f
}

// typeNames are the types that have a label of their own; the rest is other, so that nobody can make more.
var typeNames = map[uint16]string{typeA: "A", typeNS: "NS", typeCNAME: "CNAME", typeSOA: "SOA", typePTR: "PTR", 15: "MX",
	typeTXT: "TXT", typeAAAA: "AAAA",
	typeSRV: "SRV", 64: "SVCB", 65: "HTTPS"}

var rcodeNames = [16]string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"}

func (f *figures) question(q *query, t transport, answer []byte, began time.Time) {
	proto, family, typ := "udp", "1", typeNames[q.typ]
	if t.tcp {
		proto = "tcp"
	}
	if a := t.from.Unmap(); a.Is6() {
		family = "2"
	}
	if typ == "" {
		typ = "other"
	}
	f.requests.WithLabelValues(proto, family, typ).Inc()
	f.responses.WithLabelValues(rcodeNames[answer[3]&15]).Inc()
	f.took.WithLabelValues(proto).Observe(time.Since(began).Seconds())
}

func (f *figures) cached(hit bool) {
	if hit {
		f.hits.Inc()
		return
	}
	f.misses.Inc()
}

func (f *figures) forwarded(at netip.AddrPort, err error) {
	f.forwards.WithLabelValues(at.String()).Inc()
	if err != nil {
		f.failures.WithLabelValues(at.String()).Inc()
	}
}

// mux has what the server says of itself.
func (s *server) mux() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(s.told.registry, promhttp.HandlerOpts{}))
	ok := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "OK") }
	mux.HandleFunc("/health", ok)
	mux.HandleFunc("/ready", ok)
	return mux
}

// pages serves /metrics, /health and /ready at an address until ctx ends. When the port is taken there are none, and names are answered all
// the same.
func (s *server) pages(ctx context.Context, at netip.AddrPort) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
	if err != nil {
		s.cfg.Log.Warn("serve the metrics of the cluster DNS", "address", at, "err", err)
		<-ctx.Done()
		return nil
	}
	h := &http.Server{Handler: s.mux(), ReadTimeout: idle, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = h.Close() })
	defer stop()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the metrics of the cluster DNS: %w", err)
	}
	return nil
}
