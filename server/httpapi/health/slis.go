package health

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// SLIs are the component SLIs of /metrics/slis (KEP-3466): how the health checks went, by upstream's metric names. They
// have a page of their own, which is asked for far more often than /metrics. Safe for concurrent use.
type SLIs struct {
	last    *prometheus.GaugeVec
	total   *prometheus.CounterVec
	handler http.Handler
}

// NewSLIs returns SLIs that have counted nothing yet.
func NewSLIs() *SLIs {
	s := &SLIs{
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubernetes_healthcheck",
			Help: "Whether a health check passed when it was last asked for: 1, or 0."}, []string{"name", "type"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubernetes_healthchecks_total",
			Help: "Health checks that were asked for."}, []string{"name", "status", "type"}),
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(s.last, s.total)
	s.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return s
}

// note counts one run of a check of /healthz, /livez or /readyz.
func (s *SLIs) note(endpoint, name string, err error) {
	passed, status := 1.0, "success"
	if err != nil {
		passed, status = 0, "error"
	}
	s.last.WithLabelValues(name, endpoint).Set(passed)
	s.total.WithLabelValues(name, status, endpoint).Inc()
}

// ServeSLIs answers /metrics/slis. A scrape runs the checks too: where no kubelet and no load balancer asks for them, the page would say
// nothing.
func (h *Handler) ServeSLIs(w http.ResponseWriter, r *http.Request) {
	for _, endpoint := range []string{"healthz", "livez", "readyz"} {
		for _, c := range h.Checks(endpoint) {
			_ = h.run(r.Context(), endpoint, c)
		}
	}
	h.SLIs.handler.ServeHTTP(w, r)
}
