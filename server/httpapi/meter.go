package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// meter counts requests under upstream's metric names, so that its dashboards work.
type meter struct {
	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec // to protect the server
	duration *prometheus.HistogramVec
	expiry   prometheus.Histogram // of clients' certificates
	streams  *prometheus.GaugeVec
	old      *prometheus.GaugeVec // deprecated kinds
	watches  *prometheus.GaugeVec
	sizes    *prometheus.HistogramVec
	handler  http.Handler
}

func newMeter(cfg *Config, under *inFlight) *meter {
	m := &meter{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_request_total",
			Help: "Requests answered."}, append([]string{"dry_run", "code"}, perRequest...)),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_request_duration_seconds",
			Help: "Time to answer a request, streams excluded.", Buckets: []float64{.001, .005, .025, .1, .5, 1, 5, 30, 60}},
			append([]string{"dry_run"}, perRequest...)),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_request_terminations_total",
			Help: "Requests refused, or ended, to protect the server."}, []string{"verb", "group", "resource", "component", "code"}),
		expiry: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "apiserver_client_certificate_expiration_seconds",
			Help: "How long the certificate of a request is still good.", Buckets: expiries}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_longrunning_requests",
			Help: "Streams under way."}, perRequest),
		old: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_requested_deprecated_apis",
			Help: "Deprecated kinds that were asked for: 1."}, []string{"group", "version", "resource", "subresource", "removed_release"}),
		watches: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_registered_watchers",
			Help: "Watches under way."}, []string{"group", "kind"}),
		sizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_response_sizes",
			Help: "Bytes of an answer before compression.", Buckets: prometheus.ExponentialBuckets(1000, 10, 7)}, perRequest),
	}
	cfg.Registry.MustRegister(m.requests, m.refused, m.duration, sli{m.duration}, m.expiry, underWay("readOnly", &under.reads),
		underWay("mutating", &under.writes), m.streams, m.old, m.watches, m.sizes,
		buildInfo(cfg))
	all := prometheus.Gatherers{cfg.Registry}
	if cfg.Process != nil {
		all = append(all, cfg.Process)
	}
	m.handler = promhttp.HandlerFor(all, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return m
}

const component = "apiserver"

var (
	perRequest = []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	sliDesc    = prometheus.NewDesc("apiserver_request_sli_duration_seconds",
		"As apiserver_request_duration_seconds; waits for seats and webhooks are in it.", perRequest, nil)
	expiries = []float64{0, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 345600, 604800, 2592000, 7776000, 15552000, 31104000}
)

// sli tells the durations once more, by the name that upstream's rules ask for: counting them twice would cost every request.
type sli struct{ of prometheus.Collector }

// Describe implements prometheus.Collector.
func (s sli) Describe(to chan<- *prometheus.Desc) { to <- sliDesc }

// Collect implements prometheus.Collector.
func (s sli) Collect(to chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric)
	go func() {
		defer close(all)
		s.of.Collect(all)
	}()
	for m := range all {
		var told dto.Metric
		if m.Write(&told) == nil {
			if i := slices.IndexFunc(told.Label, isDryRun); i >= 0 && told.Label[i].GetValue() == "" { // tries would be the same series again
				told.Label = slices.Concat(told.Label[:i], told.Label[i+1:]) // the series itself keeps its list
				to <- sameAs{&told}
			}
		}
	}
}

func isDryRun(l *dto.LabelPair) bool { return l.GetName() == "dry_run" }

type sameAs struct{ told *dto.Metric }

// Desc implements prometheus.Metric.
func (sameAs) Desc() *prometheus.Desc { return sliDesc }

// Write implements prometheus.Metric.
func (s sameAs) Write(to *dto.Metric) error {
	to.Label, to.Histogram = s.told.Label, s.told.Histogram
	return nil
}

// scope says how much a request concerns.
func scope(i *info) string {
	switch {
	case i.Res == "":
		return ""
	case i.Name != "" || i.Verb == "create":
		return "resource"
	case i.Namespace != "":
		return "namespace"
	}
	return "cluster"
}

// buildInfo is the metric by which upstream's rules compare versions.
func buildInfo(cfg *Config) prometheus.Collector {
	v := cfg.Version
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubernetes_build_info", Help: "What runs here.", ConstLabels: prometheus.Labels{
		"major": v.Major, "minor": v.Minor, "git_version": v.GitVersion, "git_commit": v.GitCommit, "go_version": v.GoVersion,
		"platform": v.Platform, "build_date": v.BuildDate, "git_tree_state": v.GitTreeState, "compiler": v.Compiler}})
	g.Set(1)
	return g
}

// certificate notes how long the client's certificate is still good, if it has one.
func (m *meter) certificate(r *http.Request, now time.Time) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		m.expiry.Observe(max(0, r.TLS.PeerCertificates[0].NotAfter.Sub(now).Seconds()))
	}
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
func (m *meter) observe(i *info, r *http.Request, rec *recorder, start time.Time) {
	code, long := rec.code, i.longRunning()
	if code == 0 {
		code = http.StatusOK
	}
	if !i.Known {
		i = &info{Verb: i.Verb}
	}
	of, dry, status := labels(i, r), dryRun(r), strconv.Itoa(code)
	m.requests.WithLabelValues(append([]string{dry, status}, of...)...).Inc()
	if code == http.StatusTooManyRequests || code == http.StatusGatewayTimeout {
		m.refused.WithLabelValues(of[0], i.Group, i.Res, component, status).Inc()
	}
	if long {
		return
	}
	m.duration.WithLabelValues(append([]string{dry}, of...)...).Observe(time.Since(start).Seconds())
	m.sizes.WithLabelValues(of...).Observe(float64(rec.bytes))
}

// stream counts a stream until what it returns is called.
func (m *meter) stream(i *info, r *http.Request) (end func()) {
	open := m.streams.WithLabelValues(labels(i, r)...)
	open.Inc()
	return open.Dec
}

// watch counts a watch of a kind until what it returns is called.
func (m *meter) watch(i *info, r *http.Request, of schema.GroupVersionKind) (end func()) {
	watches, stream := m.watches.WithLabelValues(of.Group, of.Kind), m.stream(i, r)
	watches.Inc()
	return func() {
		watches.Dec()
		stream()
	}
}

// labels are the values of perRequest.
func labels(i *info, r *http.Request) []string {
	return []string{metricVerb(i, r), i.Group, i.Version, i.Res, i.Sub, scope(i), component}
}

// dryRun says whether a request was for trying. A stranger's text makes no label.
func dryRun(r *http.Request) string {
	if !strings.Contains(r.URL.RawQuery, "dryRun") {
		return ""
	}
	for _, way := range r.URL.Query()["dryRun"] {
		if way != metav1.DryRunAll {
			return "invalid"
		}
	}
	return metav1.DryRunAll
}

func metricVerb(i *info, r *http.Request) string {
	switch i.Sub {
	case "log", "exec", "attach", "portforward", "proxy":
		return "CONNECT"
	}
	switch i.Verb {
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
		if r.Header.Get("Content-Type") == string(types.ApplyPatchType) {
			return "APPLY"
		}
		return "PATCH"
	case "delete":
		return "DELETE"
	case "deletecollection":
		return "DELETECOLLECTION"
	}
	return "other"
}
