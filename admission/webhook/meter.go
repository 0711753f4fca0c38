package webhook

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/admission"
)

// meter counts calls under upstream's names.
type meter struct {
	took       *prometheus.HistogramVec
	requests   *prometheus.CounterVec
	rejections *prometheus.CounterVec
	opened     *prometheus.CounterVec
}

func newMeter(reg *prometheus.Registry) *meter {
	const prefix = "apiserver_admission_webhook_"
	m := &meter{
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "admission_duration_seconds",
			Help:    "Latency of admission webhooks in seconds, by name, operation and type (admit or validating).",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25}}, []string{"name", "type", "operation", "rejected"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "request_total",
			Help: "Calls of admission webhooks by name, code, operation and type."}, []string{"name", "type", "operation", "code", "rejected"}),
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "rejection_count",
			Help: "Requests that admission webhooks refused, or that failed because of one."},
			[]string{"name", "type", "operation", "error_type", "rejection_code"}),
		opened: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "fail_open_count",
			Help: "Webhooks that could not be asked and whose requests passed all the same."}, []string{"name", "type"}),
	}
	if reg != nil {
		reg.MustRegister(m.took, m.requests, m.rejections, m.opened)
	}
	return m
}

func typeOf(h *hook) string {
	if h.validating {
		return "validating"
	}
	return "admit"
}

// observe counts a call; answer is nil when there was none.
func (m *meter) observe(h *hook, op admission.Op, answer *admissionv1.AdmissionResponse, err error, took time.Duration) {
	rejected, code, why := false, 200, "no_error"
	var st apierrors.APIStatus
	switch {
	case errors.As(err, &st):
		rejected, code, why = !h.ignores(), int(st.Status().Code), "calling_webhook_error"
	case err != nil:
		rejected, code, why = !h.ignores(), 503, "calling_webhook_error"
	case !answer.Allowed:
		rejected, code = true, int(denial(h.Name, answer.Result).ErrStatus.Code)
	}
	code = min(code, 600)
	m.took.WithLabelValues(h.Name, typeOf(h), string(op), strconv.FormatBool(rejected)).Observe(took.Seconds())
	m.requests.WithLabelValues(h.Name, typeOf(h), string(op), strconv.Itoa(code), strconv.FormatBool(rejected)).Inc()
	if rejected {
		m.rejections.WithLabelValues(h.Name, typeOf(h), string(op), why, strconv.Itoa(code)).Inc()
	}
}

func (m *meter) failOpen(h *hook) { m.opened.WithLabelValues(h.Name, typeOf(h)).Inc() }
