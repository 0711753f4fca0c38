package cluster

import (
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/kinds/apiregistration"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// figures tell, under upstream's names, how the loops in this process get on and how many objects there are. They are made
// when somebody asks: nothing is counted twice.
type figures struct{ d *frontDoor }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	queueDepth   = desc("workqueue_depth", "Keys that are due.", "name")
	queueAdds    = desc("workqueue_adds_total", "Keys that became due.", "name")
	queueRetries = desc("workqueue_retries_total", "Looks that failed, and are tried again.", "name")
	queueWaited  = desc("workqueue_queue_duration_seconds", "How long keys were due before they were looked at.", "name")
	queueWorked  = desc("workqueue_work_duration_seconds", "How long looks took.", "name")
	queueOldest  = desc("workqueue_longest_due_seconds", "How long the oldest key that is due has been so.", "name")

	decisionTook = desc("scheduler_scheduling_algorithm_duration_seconds", "How long decisions took.")
	pendingPods  = desc("scheduler_pending_pods", "Pods without a node.", "queue")

	objects     = desc("apiserver_storage_objects", "Objects stored.", "resource")
	stored      = desc("apiserver_storage_size_bytes", "Size of the member's database.", "storage_cluster_id")
	unavailable = desc("aggregator_unavailable_apiservice", "API services whose server does not answer: 1.", "name")
)

// Describe implements prometheus.Collector.
func (f figures) Describe(to chan<- *prometheus.Desc) {
	for _, list := range [][]*prometheus.Desc{{queueDepth, queueAdds, queueRetries, queueWaited, queueWorked, queueOldest, decisionTook,
		pendingPods, objects, stored, unavailable}, volumeDescs} {
		for _, d := range list {
			to <- d
		}
	}
}

// Collect implements prometheus.Collector.
func (f figures) Collect(to chan<- prometheus.Metric) {
	snap := f.d.view.Snapshot()
	for _, s := range f.d.c.Loops.Stats() {
		queueFigures(to, &s)
		switch s.Name {
		case "scheduler":
			schedulerFigures(to, &s)
		case "selinux-warning":
			if tell := f.d.c.cfg.Kit.Labels; tell != nil {
				tell(snap, func(labels [7]string) { gauge(to, labelsConflict, 1, labels[:]...) })
			}
		}
	}
	for _, k := range f.d.set.All() {
		if !k.Info().Virtual {
			gauge(to, objects, float64(snap.Count(k, "")), k.Info().GR().String())
		}
	}
	if db, err := os.Stat(filepath.Join(f.d.c.cfg.DataDir, "etcd", "member", "snap", "db")); err == nil {
		gauge(to, stored, float64(db.Size()), "etcd-0")
	}
	for _, a := range resource.List(resource.Reader(snap), apiregistration.APIServices, "") {
		gauge(to, unavailable, truth(lost(a)), a.Name)
	}
	for s, n := range volumeCounts(snap, f.d.c.cfg.Kit.Attached) {
		gauge(to, s.of, n, s.labels[:s.n]...)
	}
}

func lost(a *apiregistrationv1.APIService) bool {
	for _, c := range a.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			return c.Status == apiregistrationv1.ConditionFalse
		}
	}
	return false
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(to chan<- prometheus.Metric, d *prometheus.Desc, v int64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func spread(to chan<- prometheus.Metric, d *prometheus.Desc, s *loop.Spread, labels ...string) {
	to <- prometheus.MustNewConstHistogram(d, uint64(s.Count), s.Sum.Seconds(), s.Buckets(), labels...)
}

// counted tells what loops have counted themselves.
type counted struct{ by *loop.Figures }

// Describe implements prometheus.Collector: which figures there are depends on the loops.
func (counted) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c counted) Collect(to chan<- prometheus.Metric) {
	for _, s := range c.by.All() {
		d := desc(s.Of.Name, s.Of.Help, s.Of.Labels...)
		if len(s.Of.Bounds) == 0 {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, s.Sum(), s.Labels...)
			continue
		}
		to <- prometheus.MustNewConstHistogram(d, s.Count(), s.Sum(), s.Buckets(), s.Labels...)
	}
}

func queueFigures(to chan<- prometheus.Metric, s *loop.Stats) {
	gauge(to, queueDepth, float64(s.Depth), s.Name)
	counter(to, queueAdds, s.Adds, s.Name)
	counter(to, queueRetries, s.Failed, s.Name)
	spread(to, queueWaited, &s.Waited, s.Name)
	spread(to, queueWorked, &s.Worked, s.Name)
	gauge(to, queueOldest, s.Oldest.Seconds(), s.Name)
}

// schedulerFigures tell of the scheduler, whose keys are pods. A pod that fits nowhere waits, and is no error.
func schedulerFigures(to chan<- prometheus.Metric, s *loop.Stats) {
	spread(to, decisionTook, &s.Worked)
	gauge(to, pendingPods, float64(s.Depth), "active")
	gauge(to, pendingPods, float64(s.Failing), "backoff")
	gauge(to, pendingPods, float64(s.Waiting-s.Failing), "unschedulable")
}

// ofProcess tells of this process, and of the etcd in it if there is one: its library counts for the whole process, and would
// tell of a member that has no leader where there is no member.
func (b *builder) ofProcess() prometheus.Gatherer {
	if b.c.storage.etcd != nil {
		return prometheus.DefaultGatherer
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}
