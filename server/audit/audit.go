// Package audit records who did what, as a policy says, in the form of audit.k8s.io/v1.
//
// A request's Record makes an event for each stage that the policy wants. Events are encoded at once and wait in a
// bounded queue of each output; a request never waits for an output, and what finds no room is dropped and counted.
//
//	policy.go   what is recorded
//	record.go   the record of one request
//	queue.go    what waits for an output
//	file.go     the log file and its rotation
//	webhook.go  batches to another server
package audit

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/kloop-dev/kloop/auth"
)

// Config says what is recorded and where it goes.
type Config struct {
	Policy  *Policy
	Outputs []Output
}

// An Auditor makes records. It is safe for concurrent use.
type Auditor struct {
	policy *Policy
	queues []*queue
	events prometheus.Counter
	levels *prometheus.CounterVec
}

// New returns an auditor. It starts nothing: events wait until Run.
func New(c Config) *Auditor {
	a := &Auditor{policy: c.Policy,
		events: prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_audit_event_total", Help: "Audit events made."}),
		levels: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_audit_level_total",
			Help: "Requests by the level at which they are recorded."}, []string{"level"}),
	}
	for _, o := range c.Outputs {
		a.queues = append(a.queues, newQueue(o))
	}
	return a
}

// Collectors are the auditor's metrics.
func (a *Auditor) Collectors() []prometheus.Collector {
	list := []prometheus.Collector{a.events, a.levels}
	for _, q := range a.queues {
		list = append(list, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "apiserver_audit_error_total",
			Help: "Audit events that did not reach an output.", ConstLabels: prometheus.Labels{"plugin": q.out.Name()}},
			func() float64 { return float64(q.lost.Load()) }))
	}
	return list
}

// Run writes events to the outputs until ctx ends, and then what is left, as long as that takes no more than a few
// seconds.
func (a *Auditor) Run(ctx context.Context, log *slog.Logger) {
	var wg sync.WaitGroup
	for _, q := range a.queues {
		wg.Go(func() { q.run(ctx, log) })
	}
	wg.Wait()
}

// Begin judges a request. It returns nil when nothing is recorded of it.
func (a *Auditor) Begin(at *auth.Attributes) *Record {
	if a == nil {
		return nil
	}
	v := a.policy.Judge(at)
	a.levels.WithLabelValues(string(v.Level)).Inc()
	if v.Level == auditv1.LevelNone || v.Level == "" {
		return nil
	}
	return &Record{auditor: a, verdict: v}
}

// emit encodes an event and queues it.
func (a *Auditor) emit(e *auditv1.Event) {
	a.events.Inc()
	line, err := json.Marshal(e)
	if err != nil { // a body that is no JSON: tell without it
		bare := *e
		bare.RequestObject, bare.ResponseObject = nil, nil
		if line, err = json.Marshal(&bare); err != nil {
			slog.Error("encode an audit event", "id", e.AuditID, "err", err)
			return
		}
	}
	for _, q := range a.queues {
		q.put(line)
	}
}
