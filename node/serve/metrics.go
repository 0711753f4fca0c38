package serve

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resourceMetrics answers what metrics-server reads.
func (a *api) resourceMetrics(w http.ResponseWriter, r *http.Request) error {
	s, err := a.gather(r.Context())
	if err != nil {
		a.log.Warn("gather statistics", "err", err) // the answer can only say that there was an error
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(metrics(s, err)) // the caller may have gone
	return nil
}

// ownMetrics answers with the metrics of the agent itself, under the kubelet's names.
func (a *api) ownMetrics(w http.ResponseWriter, r *http.Request) error {
	pods, containers, up := a.cfg.Pods(), map[string]int{}, 0
	for _, p := range pods {
		if hasSandbox(p) {
			up++
		}
		for i := range p.Status.ContainerStatuses {
			containers[containerState(&p.Status.ContainerStatuses[i].State)]++
		}
	}
	name := newFamily("kubelet_node_name", "gauge", "The node's name. The count is always 1.")
	name.sample(fmt.Sprintf("{node=%q}", a.cfg.Node), 1, metav1.Time{})
	running := newFamily("kubelet_running_pods", "gauge", "Number of pods that have a running pod sandbox")
	running.sample("", float64(up), metav1.Time{})
	each := newFamily("kubelet_running_containers", "gauge", "Number of currently running containers")
	for _, state := range []string{"exited", "running", "waiting"} {
		each.sample(fmt.Sprintf("{container_state=%q}", state), float64(containers[state]), metav1.Time{})
	}
	a.own.ServeHTTP(w, r)
	more := append(podCounts(pods), a.volumeFamilies(r.Context(), pods)...)
	for _, f := range append([]*family{name, running, each, a.certificate(time.Now()), buildInfo()}, more...) {
		_, _ = w.Write(f.Bytes()) // the caller may have gone
	}
	return nil
}

func containerState(s *corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return "exited"
	}
	return "waiting"
}

// processMetrics tells of the process that the agent runs in, as plain text: its caller appends to it.
// reg has what was counted here, and meter what the agent counted besides; nil: nothing.
func processMetrics(reg *prometheus.Registry, meter prometheus.Gatherer) http.Handler {
	all := prometheus.Gatherers{reg}
	if meter != nil {
		all = append(all, meter)
	}
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	h := promhttp.HandlerFor(all, promhttp.HandlerOpts{DisableCompression: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plain := r.Clone(r.Context())
		plain.Header = http.Header{} // of all formats the one that can be appended to
		h.ServeHTTP(w, plain)
	})
}

// A family is the samples of one metric.
type family struct {
	bytes.Buffer
	name string
}

func newFamily(name, typ, help string) *family {
	f := &family{name: name}
	fmt.Fprintf(f, "# HELP %s [STABLE] %s\n# TYPE %s %s\n", name, help, name, typ)
	return f
}

func (f *family) sample(labels string, v float64, at metav1.Time) {
	fmt.Fprintf(f, "%s%s %s", f.name, labels, strconv.FormatFloat(v, 'g', -1, 64))
	if !at.IsZero() {
		fmt.Fprintf(f, " %d", at.UnixMilli())
	}
	f.WriteByte('\n')
}

func (f *family) cpu(labels string, c *cpuStats) {
	if c != nil && c.UsageCoreNanoSeconds != nil {
		f.sample(labels, float64(*c.UsageCoreNanoSeconds)/1e9, c.Time)
	}
}

func (f *family) memory(labels string, m *memoryStats) {
	if m != nil && m.WorkingSetBytes != nil {
		f.sample(labels, float64(*m.WorkingSetBytes), m.Time)
	}
}

// metrics is the summary in the text format of Prometheus.
func metrics(s summary, err error) []byte {
	const cpu, memory = "Cumulative cpu time consumed by the %s in core-seconds", "Current working set of the %s in bytes"
	cCPU := newFamily("container_cpu_usage_seconds_total", "counter", fmt.Sprintf(cpu, "container"))
	cMem := newFamily("container_memory_working_set_bytes", "gauge", fmt.Sprintf(memory, "container"))
	cStart := newFamily("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds")
	nCPU := newFamily("node_cpu_usage_seconds_total", "counter", fmt.Sprintf(cpu, "node"))
	nMem := newFamily("node_memory_working_set_bytes", "gauge", fmt.Sprintf(memory, "node"))
	pCPU := newFamily("pod_cpu_usage_seconds_total", "counter", fmt.Sprintf(cpu, "pod"))
	pMem := newFamily("pod_memory_working_set_bytes", "gauge", fmt.Sprintf(memory, "pod"))
	failed := newFamily("resource_scrape_error", "gauge", "1 if there was an error while getting container metrics, 0 otherwise")
	nCPU.cpu("", s.Node.CPU)
	nMem.memory("", s.Node.Memory)
	for _, p := range s.Pods {
		pod := fmt.Sprintf("namespace=%q,pod=%q", p.PodRef.Namespace, p.PodRef.Name)
		pCPU.cpu("{"+pod+"}", p.CPU)
		pMem.memory("{"+pod+"}", p.Memory)
		for _, c := range p.Containers {
			labels := fmt.Sprintf("{container=%q,%s}", c.Name, pod)
			cCPU.cpu(labels, c.CPU)
			cMem.memory(labels, c.Memory)
			if !c.StartTime.IsZero() {
				cStart.sample(labels, float64(c.StartTime.UnixNano())/1e9, metav1.Time{})
			}
		}
	}
	code := 0.0
	if err != nil {
		code = 1
	}
	failed.sample("", code, metav1.Time{})
	var all bytes.Buffer
	for _, f := range []*family{cCPU, cMem, cStart, nCPU, nMem, pCPU, pMem, failed} {
		all.Write(f.Bytes())
	}
	return all.Bytes()
}
