package admission

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Meter tells, under upstream's names, how long a chain and its plugins take. A nil one tells nothing.
type Meter struct {
	plugins, passes *prometheus.HistogramVec
	series          []series // one of each plugin, the last of whole passes
}

// series holds what was looked up before: by pass, operation, and whether the request was refused.
type series [2][4][2]atomic.Pointer[prometheus.Observer]

// A pass is one of the two that a request goes through.
type pass int

const (
	admit pass = iota
	validate
)

func (p pass) String() string { return [...]string{"admit", "validate"}[p] }

var operations = []Op{Create, Update, Delete, Connect}

// looksAt are the operations that plugins look at: for the others they are asked too, but find nothing to do, and upstream does not count
// them. Those that are not here look at creations, updates and deletions.
var looksAt = map[string][]Op{
	"CertificateApproval": {Update}, "CertificateSigning": {Update}, "CertificateSubjectRestriction": {Create}, "CertificateRequester": {},
	"ClusterTrustBundleAttest": {Create, Update}, "DefaultIngressClass": {Create}, "DefaultStorageClass": {Create},
	"DefaultTolerationSeconds": {Create, Update}, "LimitRanger": {Create, Update}, "NodeDeclaredFeatureValidator": {Create, Update},
	"PersistentVolumeClaimResize": {Update}, "PodResizeValidator": {Update}, "PodSecurity": {Create, Update},
	"PodTopologyLabels": {Create}, "ResourceQuota": {Create, Update}, "RuntimeClass": {Create}, "ServiceAccount": {Create, Update},
	"StorageObjectInUseProtection": {Create}, "TaintNodesByCondition": {Create},
	"MutatingAdmissionWebhook": operations, "ValidatingAdmissionWebhook": operations,
	"MutatingAdmissionPolicy": {Create, Update}, "ValidatingAdmissionPolicy": operations,
}

// NewMeter returns the meter of a chain.
func NewMeter(c Chain, reg prometheus.Registerer) *Meter {
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5}},
			labels)
	}
	m := &Meter{series: make([]series, len(c)+1),
		plugins: histogram("apiserver_admission_controller_admission_duration_seconds",
			"How long plugins of admission take, by name, operation and pass.", "name", "type", "operation", "rejected"),
		passes: histogram("apiserver_admission_step_admission_duration_seconds",
			"How long admission takes, by operation and pass.", "type", "operation", "rejected")}
	reg.MustRegister(m.plugins, m.passes)
	return m
}

func (m *Meter) begin() (now time.Time) {
	if m != nil {
		now = time.Now()
	}
	return now
}

// plugin notes what the plugin at i of the chain took since began, and returns when it ended: then the next one begins.
func (m *Meter) plugin(i int, name string, p pass, op Op, err error, began time.Time) time.Time {
	if m == nil {
		return began
	}
	now := time.Now()
	if ops, some := looksAt[name]; some && !slices.Contains(ops, op) || !some && op == Connect {
		return now
	}
	m.observe(i, p, op, err, now.Sub(began), func(refused string) prometheus.Observer {
		return m.plugins.WithLabelValues(name, p.String(), string(op), refused)
	})
	return now
}

// pass notes what all plugins took together.
func (m *Meter) pass(p pass, op Op, err error, began time.Time) {
	if m != nil {
		m.observe(len(m.series)-1, p, op, err, time.Since(began), func(refused string) prometheus.Observer {
			return m.passes.WithLabelValues(p.String(), string(op), refused)
		})
	}
}

func (m *Meter) observe(i int, p pass, op Op, err error, took time.Duration, look func(refused string) prometheus.Observer) {
	known, refused := slices.Index(operations, op), 0
	if err != nil {
		refused = 1
	}
	if known < 0 || i >= len(m.series) {
		return
	}
	of := &m.series[i][p][known][refused]
	to := of.Load()
	if to == nil {
		o := look(strconv.FormatBool(err != nil))
		to = &o
		of.Store(to)
	}
	(*to).Observe(took.Seconds())
}
