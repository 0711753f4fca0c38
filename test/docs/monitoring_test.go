package docs

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
)

const monitoring = "../../docs/monitoring"

var (
	// A selector is a metric with its labels. All that the files have begin so.
	selector = regexp.MustCompile(`\b((?:apiserver|kubernetes)_[a-z_]+)\{([^}]*)\}`)
	labelled = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)`)
	grouped  = regexp.MustCompile(`\bby \(([a-z_, ]+)\)`)
)

// expressions are those of the rules and of the dashboard.
func expressions(t *testing.T) (list []string) {
	t.Helper()
	var rules struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	text, err := os.ReadFile(filepath.Join(monitoring, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(filepath.Join(monitoring, "dashboard.json")); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			list = append(list, r.Expr)
		}
	}
	for _, p := range board.Panels {
		for _, g := range p.Targets {
			list = append(list, g.Expr)
		}
	}
	return list
}

// TestMonitoring holds names and labels in rules and dashboard against what a server tells.
func TestMonitoring(t *testing.T) {
	told := metrics(t)
	checked := 0
	for _, e := range expressions(t) {
		for _, m := range selector.FindAllStringSubmatch(e, -1) {
			checked++
			line := sample(told, m[1])
			if line == "" {
				t.Errorf("%s: no server tells %s", e, m[1])
				continue
			}
			var labels []string
			for _, l := range labelled.FindAllStringSubmatch(m[2], -1) {
				labels = append(labels, l[1])
			}
			for _, by := range grouped.FindAllStringSubmatch(e, -1) {
				labels = append(labels, strings.Split(by[1], ", ")...)
			}
			for _, l := range labels {
				if l != "job" && !strings.Contains(line, l+`="`) { // job is Prometheus' own
					t.Errorf("%s: %s has no label %s: %s", e, m[1], l, line)
				}
			}
		}
	}
	if checked < 8 {
		t.Errorf("%d metrics in the files", checked)
	}
}

// TestUpstreamMetrics holds docs/monitoring/upstream.tsv, the metrics that the rules and dashboards of kubernetes-mixin and of etcd
// ask for, against what a cluster tells: each is there with its labels, or said to be missing, and why.
func TestUpstreamMetrics(t *testing.T) {
	told := metrics(t)
	text, err := os.ReadFile(filepath.Join(monitoring, "upstream.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(strings.TrimSpace(line), "\t")
		if len(cells) != 4 {
			t.Fatalf("not four cells: %q", line)
		}
		name, labels, missing := cells[0], strings.Fields(cells[1]), cells[3]
		row := told.one(name)
		if missing != "served" {
			if row != "" {
				t.Errorf("%s is served: %s", name, row)
			}
			continue
		}
		served++
		if row == "" {
			t.Errorf("%s is not served", name)
			continue
		}
		for _, l := range labels {
			if l != "-" && !strings.Contains(row, l+`="`) {
				t.Errorf("%s has no label %s: %s", name, l, row)
			}
		}
	}
	if served < 35 {
		t.Errorf("%d metrics are served", served)
	}
}

// A telling is what a server answers at /metrics.
type telling []byte

// one is a line of a metric, with labels or without; "" if there is none.
func (told telling) one(name string) string {
	for line := range strings.Lines(string(told)) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ') {
			return line
		}
	}
	return ""
}

// sample is a line of a metric, "" if there is none.
func sample(told []byte, name string) string {
	for line := range strings.Lines(string(told)) {
		if strings.HasPrefix(line, name+"{") {
			return line
		}
	}
	return ""
}

// place makes a pod, and returns when it has a node.
func place(t *testing.T, cfg *rest.Config) {
	t.Helper()
	set, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pods := set.CoreV1().Pods("default")
	no := false
	_, err = pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := pods.Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: new(int64(60))})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && p.Spec.NodeName != "" {
			return
		}
	}
	t.Fatal("nobody gives the pod a node")
}

// metrics are those of a server that has served something, and refused something.
func metrics(t *testing.T) telling {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(), DataDir: t.TempDir(), SimNodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	place(t, cfg)
	var text []byte
	for _, path := range []string{"/api/v1/namespaces", "/metrics"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err = io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, resp.Status, err)
		}
	}
	return telling(bytes.TrimSpace(text))
}
