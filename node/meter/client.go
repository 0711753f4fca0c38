package meter

import (
	"crypto/tls"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A client counts what the agent asks of the API server, under the names that all of upstream's clients have, and the renewals of its
// certificates that failed.
type client struct {
	requests      *prometheus.CounterVec
	took          *prometheus.HistogramVec
	stale, serves prometheus.Counter // renewals that failed: of the certificate to ask with, and of that to answer with
}

func newClient(m *Meter) client {
	return client{requests: m.counters("rest_client_requests_total", "Requests to the API server.", "code", "host", "method"),
		took: m.times("rest_client_request_duration_seconds", "How long requests to the API server took.",
			[]float64{.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60}, "host", "verb"),
		stale:  m.counter("kubelet_certificate_manager_client_expiration_renew_errors", "Renewals of the client certificate that failed."),
		serves: m.counter("kubelet_server_expiration_renew_errors", "Renewals of the serving certificate that failed.")}
}

// A counted transport tells a Meter of each request.
type counted struct {
	next http.RoundTripper
	to   *client
}

// Transport counts the requests that go over next.
func (m *Meter) Transport(next http.RoundTripper) http.RoundTripper { return counted{next, &m.client} }

// RoundTrip implements http.RoundTripper.
func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	res, err := c.next.RoundTrip(r)
	c.to.took.WithLabelValues(r.URL.Host, r.Method).Observe(time.Since(began).Seconds())
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(res.StatusCode)
	}
	c.to.requests.WithLabelValues(code, r.URL.Host, r.Method).Inc()
	return res, err
}

// Asks has the Meter tell for how long the certificate holds that the agent asks with.
func (m *Meter) Asks(with func() (*tls.Certificate, error)) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kubelet_certificate_manager_client_ttl_seconds",
		Help: "For how long the client certificate is good, in seconds; +Inf if there is none."}, func() float64 {
		pair, err := with()
		if err != nil || pair == nil || pair.Leaf == nil {
			return math.Inf(1)
		}
		return time.Until(pair.Leaf.NotAfter).Truncate(time.Second).Seconds()
	}))
}

// NotRenewed counts a certificate that could not be renewed: the one to answer with, or the one to ask with.
func (m *Meter) NotRenewed(serving bool) {
	switch {
	case m == nil:
	case serving:
		m.client.serves.Inc()
	default:
		m.client.stale.Inc()
	}
}
