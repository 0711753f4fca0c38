// Package meter counts what the node's agent does, under the kubelet's names: the dashboards and alerts that people have ask for those.
package meter

import (
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
)

// A Meter counts for one agent. It is safe for concurrent use; a nil one counts nothing.
type Meter struct {
	registry *prometheus.Registry

	calls, failures, evictions, preemptions, containers, broken, ended *prometheus.CounterVec
	took, worker, volumes, drivers, groups, boxes, pulls               *prometheus.HistogramVec
	relist, interval, start, total, sli, size                          prometheus.Histogram
	seen                                                               prometheus.Gauge
	pods, brokenPods, own, brokenOwn                                   prometheus.Counter
	labels                                                             map[string]*prometheus.GaugeVec

	client client

	mu       sync.Mutex
	startup  startup
	waiting  map[types.UID]time.Time // pods that do not run yet: since when the agent knows them
	relisted time.Time
}

// The upper ends of the buckets of times, in seconds, as the kubelet has them: of calls, of pods' starts, of work on volumes.
var (
	callBuckets   = prometheus.ExponentialBuckets(.005, 2.5, 14)
	startBuckets  = []float64{.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	pullBuckets   = []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	volumeBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}
)

// pullSizes are the kubelet's names for sizes of images.
var pullSizes = []struct {
	above uint64
	label string
}{{0, "0-10MB"}, {10 << 20, "10MB-100MB"}, {100 << 20, "100MB-500MB"}, {500 << 20, "500MB-1GB"}, {1 << 30, "1GB-5GB"},
	{5 << 30, "5GB-10GB"}, {10 << 30, "10GB-20GB"}, {20 << 30, "20GB-30GB"}, {30 << 30, "30GB-40GB"}, {40 << 30, "40GB-60GB"},
	{60 << 30, "60GB-100GB"}, {100 << 30, "GT100GB"}}

// New returns a Meter at zero.
func New() *Meter {
	m := &Meter{registry: prometheus.NewRegistry(), waiting: map[types.UID]time.Time{}}
	m.calls = m.counters("kubelet_runtime_operations_total", "Cumulative number of runtime operations by operation type.", "operation_type")
	m.failures = m.counters("kubelet_runtime_operations_errors_total", "Cumulative number of runtime operation errors by operation type.",
		"operation_type")
	m.took = m.times("kubelet_runtime_operations_duration_seconds", "Duration in seconds of runtime operations. "+
		"Broken down by operation type.", callBuckets, "operation_type")
	m.worker = m.times("kubelet_pod_worker_duration_seconds", "Duration in seconds to sync a single pod. Broken down by operation type: "+
		"create, sync, or kill", prometheus.DefBuckets, "operation_type")
	m.volumes = m.times("storage_operation_duration_seconds", "Storage operation duration", volumeBuckets,
		"migrated", "operation_name", "status", "volume_plugin")
	m.drivers = m.times("csi_operations_seconds", "Container Storage Interface operation duration with gRPC error code status total",
		volumeBuckets, "driver_name", "grpc_status_code", "method_name", "migrated")
	m.groups = m.times("kubelet_cgroup_manager_duration_seconds", "Duration in seconds for cgroup manager operations. Broken down by method.",
		prometheus.DefBuckets, "operation_type")
	byDriver := []string{"volume_plugin", "access_mode"}
	m.labels = map[string]*prometheus.GaugeVec{}
	for _, l := range []struct {
		what, help string
		labels     []string
	}{{"volumes_admitted", "Volumes that were mounted with the label of SELinux that their pods need.", byDriver},
		{"volume_context_mismatch_errors", "Looks at pods that need a label of SELinux of a volume which is mounted with another one.", byDriver},
		{"pod_context_mismatch_errors", "Looks at pods whose containers need several labels of SELinux of one volume.", []string{"access_mode"}},
		{"pod_context_mismatch_warnings", "The same of volumes that are mounted without a label all the same.", []string{"access_mode"}}} {
		m.labels[l.what] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "volume_manager_selinux_" + l.what + "_total", Help: l.help},
			l.labels)
		m.registry.MustRegister(m.labels[l.what])
	}
	m.evictions = m.counters("kubelet_evictions", "Cumulative number of pod evictions by eviction signal", "eviction_signal")
	m.preemptions = m.counters("kubelet_preemptions", "Cumulative number of pod preemptions by preemption resource", "preemption_signal")
	m.containers = m.counters("kubelet_started_containers_total", "Cumulative number of containers started", "container_type")
	m.broken = m.counters("kubelet_started_containers_errors_total", "Cumulative number of errors when starting containers",
		"code", "container_type")
	m.ended = m.counters("kubelet_terminated_containers_total", "Cumulative number of container terminations.",
		"container_type", "exit_code", "reason")
	m.relist = m.time("kubelet_pleg_relist_duration_seconds", "Duration in seconds for relisting pods in PLEG.", prometheus.DefBuckets)
	m.interval = m.time("kubelet_pleg_relist_interval_seconds", "Interval in seconds between relisting in PLEG.", prometheus.DefBuckets)
	m.start = m.time("kubelet_pod_start_duration_seconds", "Duration in seconds from kubelet seeing a pod for the first time to the pod "+
		"starting to run", startBuckets)
	m.total = m.time("kubelet_pod_start_total_duration_seconds", "Duration in seconds to start a pod since creation, including time to pull "+
		"images and run init containers", startBuckets)
	m.sli = m.time("kubelet_pod_start_sli_duration_seconds", "Duration in seconds to start a pod, excluding time to pull images and run init "+
		"containers", startBuckets)
	m.seen = prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_pleg_last_seen_seconds",
		Help: "Timestamp in seconds when PLEG was last seen active."})
	m.registry.MustRegister(m.seen)
	m.pods = m.counter("kubelet_started_pods_total", "Cumulative number of pods started")
	m.brokenPods = m.counter("kubelet_started_pods_errors_total", "Cumulative number of errors when starting pods")
	m.own = m.counter("kubelet_started_user_namespaced_pods_total", "Cumulative number of pods with user namespaces started.")
	m.brokenOwn = m.counter("kubelet_started_user_namespaced_pods_errors_total",
		"Cumulative number of errors when starting pods with user namespaces.")
	m.client = newClient(m)
	m.boxes = m.times("kubelet_run_podsandbox_duration_seconds", "Duration in seconds of the run_podsandbox operations. Broken down by "+
		"RuntimeClass.Handler.", callBuckets, "runtime_handler")
	m.pulls = m.times("kubelet_image_pull_duration_seconds", "Duration in seconds to pull an image.", pullBuckets, "image_size_in_bytes")
	m.size = m.time("kubelet_containers_per_pod_count", "The number of containers per pod.", prometheus.ExponentialBuckets(1, 2, 5))
	m.startup = newStartup(m)
	return m
}

func (m *Meter) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *Meter) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Meter) times(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Meter) time(name, help string, buckets []float64) prometheus.Histogram {
	v := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.registry.MustRegister(v)
	return v
}

// Gatherer tells what was counted.
func (m *Meter) Gatherer() prometheus.Gatherer { return m.registry }

// Call counts a call of the runtime. method is the full one of gRPC: /runtime.v1.RuntimeService/RunPodSandbox.
func (m *Meter) Call(method string, took time.Duration, err error) {
	if m == nil {
		return
	}
	of := operation(method[strings.LastIndexByte(method, '/')+1:])
	m.calls.WithLabelValues(of).Inc()
	m.took.WithLabelValues(of).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(of).Inc()
	}
}

// others are the operations whose names do not follow from the method's.
var others = map[string]string{"UpdateContainerResources": "update_container", "ListPodSandbox": "list_podsandbox",
	"CheckpointContainer": "checkpoint_container"}

// operation is the kubelet's name for a method: run_podsandbox for RunPodSandbox.
func operation(method string) string {
	if name, ok := others[method]; ok {
		return name
	}
	var b strings.Builder
	for i, r := range strings.ReplaceAll(method, "PodSandbox", "Podsandbox") {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Relist counts a look at all containers of the node, which began then.
func (m *Meter) Relist(began, now time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	last := m.relisted
	m.relisted = began
	m.mu.Unlock()
	m.relist.Observe(now.Sub(began).Seconds())
	m.seen.Set(float64(began.UnixNano()) / 1e9)
	if !last.IsZero() {
		m.interval.Observe(began.Sub(last).Seconds())
	}
}

// Group counts a change of a cgroup: create, update or destroy.
func (m *Meter) Group(what string, took time.Duration) {
	if m != nil {
		m.groups.WithLabelValues(what).Observe(took.Seconds())
	}
}

// Volume counts work on a volume of a plugin: volume_mount or volume_unmount.
func (m *Meter) Volume(what, plugin string, took time.Duration, err error) {
	if m == nil {
		return
	}
	status := "success"
	if err != nil {
		status = "fail-unknown"
	}
	m.volumes.WithLabelValues("false", what, status, plugin).Observe(took.Seconds())
}

// Driver counts a call of a CSI driver by its method's name in gRPC.
func (m *Meter) Driver(driver, method string, took time.Duration, err error) {
	if m != nil {
		m.drivers.WithLabelValues(driver, status.Code(err).String(), method, "false").Observe(took.Seconds())
	}
}

// Labelled counts what became of the label of SELinux that a pod needs a volume of a driver to have: volumes_admitted,
// volume_context_mismatch_errors, pod_context_mismatch_errors or the same with warnings. mode is the volume's access mode in short.
func (m *Meter) Labelled(what, driver, mode string) {
	if m == nil {
		return
	}
	if v := m.labels[what]; strings.HasPrefix(what, "pod_") {
		v.WithLabelValues(mode).Inc()
	} else {
		v.WithLabelValues("kubernetes.io/csi/"+driver, mode).Inc()
	}
}

// Evicted counts a pod that has to go because of a signal.
func (m *Meter) Evicted(signal string) {
	if m != nil {
		m.evictions.WithLabelValues(signal).Inc()
	}
}

// Preempted counts a pod that has to go for a critical one.
func (m *Meter) Preempted(resource string) {
	if m != nil {
		m.preemptions.WithLabelValues(resource).Inc()
	}
}

// Container counts the start of a container: init_container, container or ephemeral_container. code is the reason that the pod's status
// tells of a failure; "": it started.
func (m *Meter) Container(kind, code string) {
	switch {
	case m == nil:
	case code == "":
		m.containers.WithLabelValues(kind).Inc()
	default:
		m.broken.WithLabelValues(code, kind).Inc()
	}
}

// Ended counts the end of a container.
func (m *Meter) Ended(kind string, code int32, reason string) {
	if m != nil {
		m.ended.WithLabelValues(kind, strconv.Itoa(int(code)), reason).Inc()
	}
}

// Box counts how long a handler of the runtime took to make a sandbox.
func (m *Meter) Box(handler string, took time.Duration) {
	if m != nil {
		m.boxes.WithLabelValues(handler).Observe(took.Seconds())
	}
}

// Sandbox counts the start of a pod's sandbox; own says that it has users of its own.
func (m *Meter) Sandbox(own bool, err error) {
	if m == nil {
		return
	}
	if own {
		m.own.Inc() // whatever comes of it
	}
	switch {
	case err == nil:
		m.pods.Inc()
	case own:
		m.brokenOwn.Inc()
		fallthrough
	default:
		m.brokenPods.Inc()
	}
}

// Worked counts a look at a pod: create, sync or kill.
func (m *Meter) Worked(what string, took time.Duration) {
	if m != nil {
		m.worker.WithLabelValues(what).Observe(took.Seconds())
	}
}

// Pulled counts an image of so many bytes that was pulled; 0: nobody knows how many.
func (m *Meter) Pulled(size uint64, took time.Duration) {
	if m == nil {
		return
	}
	label := "N/A"
	for _, s := range pullSizes {
		if size > s.above {
			label = s.label
		}
	}
	m.pulls.WithLabelValues(label).Observe(took.Seconds())
}

// Seen says that the agent knows of a pod of so many containers that does not run yet. Saying it again changes nothing.
func (m *Meter) Seen(uid types.UID, containers int, now time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.waiting[uid]; !known {
		m.waiting[uid] = now
		m.size.Observe(float64(containers))
	}
}

// Runs counts that a pod runs for the first time. idle sums the time of its init containers.
func (m *Meter) Runs(uid types.UID, created, now time.Time, idle time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	since, known := m.waiting[uid]
	delete(m.waiting, uid)
	m.mu.Unlock()
	if !known {
		return // it ran before this agent began
	}
	m.start.Observe(now.Sub(since).Seconds())
	all := max(now.Sub(created), 0)
	m.total.Observe(all.Seconds())
	m.sli.Observe(max(all-idle, 0).Seconds())
}

// Forget says that a pod is no more.
func (m *Meter) Forget(uid types.UID) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, uid)
}
