package serve

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/core"
)

// mirrorNote stands on pods that are a static pod's picture in the API.
const mirrorNote = "kubernetes.io/config.mirror"

// podCounts count the agent's pods as the kubelet does: by whether they are static, and how far they are.
func podCounts(pods []*corev1.Pod) []*family {
	var active, desired [2]int
	stages := map[string]*[2]int{"sync": {}, "terminating": {}, "terminated": {}}
	debuggers := 0
	for _, p := range pods {
		static, stage := 0, "sync"
		if p.Annotations[mirrorNote] != "" {
			static = 1
		}
		switch {
		case core.Terminal(p):
			stage = "terminated"
		case p.DeletionTimestamp != nil:
			stage = "terminating"
		}
		desired[static]++
		if stages[stage][static]++; stage != "terminated" {
			active[static]++
		}
		debuggers += len(p.Spec.EphemeralContainers)
	}
	words := [2]string{"", "true"}
	each := func(name, help string, counts [2]int) *family {
		f := newFamily(name, "gauge", help)
		for i, n := range counts {
			f.sample(fmt.Sprintf("{static=%q}", words[i]), float64(n), metav1.Time{})
		}
		return f
	}
	working := newFamily("kubelet_working_pods", "gauge", "Pods by how far they are.")
	for _, stage := range []string{"sync", "terminated", "terminating"} {
		for i, n := range stages[stage] {
			working.sample(fmt.Sprintf("{config=%q,lifecycle=%q,static=%q}", "desired", stage, words[i]), float64(n), metav1.Time{})
		}
	}
	mirrors := newFamily("kubelet_mirror_pods", "gauge", "Pods of the API that show a static pod.")
	mirrors.sample("", float64(desired[1]), metav1.Time{})
	more := newFamily("kubelet_managed_ephemeral_containers", "gauge", "Ephemeral containers of the agent's pods.")
	more.sample("", float64(debuggers), metav1.Time{})
	return []*family{each("kubelet_active_pods", "Pods that have not ended.", active),
		each("kubelet_desired_pods", "The agent's pods.", desired), working, mirrors, more}
}

// buildInfo is the metric by which upstream's rules compare versions.
func buildInfo() *family {
	revision, date := features.Commit()
	major, minor, _ := strings.Cut(features.Release, ".")
	minor, _, _ = strings.Cut(minor, ".")
	f := newFamily("kubernetes_build_info", "gauge", "What runs here.")
	f.sample(fmt.Sprintf("{build_date=%q,compiler=%q,git_commit=%q,git_tree_state=%q,git_version=%q,", date, runtime.Compiler, revision,
		"clean", "v"+features.Release)+fmt.Sprintf("go_version=%q,major=%q,minor=%q,platform=%q}", runtime.Version(), major, minor,
		runtime.GOOS+"/"+runtime.GOARCH), 1, metav1.Time{})
	return f
}

// asked counts the requests to the agent's own API, by the first part of their path.
type asked struct {
	requests *prometheus.CounterVec
	underWay *prometheus.GaugeVec
}

func newAsked(reg *prometheus.Registry) *asked {
	labels := []string{"long_running", "method", "path", "server_type"}
	all := prometheus.CounterOpts{Name: "kubelet_http_requests_total", Help: "Requests to the agent's API."}
	a := &asked{prometheus.NewCounterVec(all, labels),
		prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubelet_http_inflight_requests", Help: "Requests under way."}, labels)}
	reg.MustRegister(a.requests, a.underWay)
	return a
}

// begin counts a request; the returned function says that it is over.
func (a *asked) begin(r *http.Request, known bool) (end func()) {
	path, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !known {
		path = "other"
	}
	long := path == "exec" || path == "attach" || path == "portForward"
	labels := []string{strconv.FormatBool(long), r.Method, path, "readwrite"}
	a.requests.WithLabelValues(labels...).Inc()
	g := a.underWay.WithLabelValues(labels...)
	g.Inc()
	return g.Dec
}
