package httpapi

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// meter counts requests under upstream's metric names, so that its dashboards work.
type meter struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	streams  *prometheus.GaugeVec
	watches  *prometheus.GaugeVec
	sizes    *prometheus.HistogramVec
	handler  http.Handler
}

func newMeter(reg *prometheus.Registry, under *inFlight) *meter {
	m := &meter{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_request_total",
			Help: "Requests answered."}, []string{"verb", "group", "version", "resource", "subresource", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_request_duration_seconds",
			Help: "Time to answer a request, streams excluded.", Buckets: []float64{.001, .005, .025, .1, .5, 1, 5, 30, 60}},
			[]string{"verb", "group", "resource"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_longrunning_requests",
			Help: "Streams under way."}, []string{"verb", "resource", "subresource"}),
		watches: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_registered_watchers",
			Help: "Watches under way."}, []string{"group", "kind"}),
		sizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_response_sizes",
			Help: "Bytes of an answer before compression.", Buckets: prometheus.ExponentialBuckets(1000, 10, 7)}, []string{"verb"}),
	}
	reg.MustRegister(m.requests, m.duration, underWay("readOnly", &under.reads), underWay("mutating", &under.writes), m.streams, m.watches, m.sizes)
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return m
}

// underWay tells how many short requests there are.
func underWay(kind string, n *atomic.Int64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "apiserver_current_inflight_requests",
		Help: "Short requests under way.", ConstLabels: prometheus.Labels{"request_kind": kind}},
		func() float64 { return float64(n.Load()) })
}

// serve answers /metrics.
func (m *meter) serve(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// observe notes a finished request.
func (m *meter) observe(i *info, rec *recorder, start time.Time) {
	code := rec.code
	if code == 0 {
		code = http.StatusOK
	}
	verb, long := metricVerb(i.Verb), i.longRunning()
	if !i.Known {
		i = &info{}
	}
	m.requests.WithLabelValues(verb, i.Group, i.Version, i.Res, i.Sub, strconv.Itoa(code)).Inc()
	if long {
		return
	}
	m.duration.WithLabelValues(verb, i.Group, i.Res).Observe(time.Since(start).Seconds())
	m.sizes.WithLabelValues(verb).Observe(float64(rec.bytes))
}

func metricVerb(verb string) string {
	switch verb {
	case "get":
		return "GET"
	case "list":
		return "LIST"
	case "watch":
		return "WATCH"
	case "create":
		return "POST"
	case "update":
		return "PUT"
	case "patch":
		return "PATCH"
	case "delete":
		return "DELETE"
	case "deletecollection":
		return "DELETECOLLECTION"
	}
	return "other"
}
