package metrics_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/kloop-dev/kloop/kinds"
	metricskinds "github.com/kloop-dev/kloop/kinds/metrics"
	"github.com/kloop-dev/kloop/metrics"
	"github.com/kloop-dev/kloop/metrics/usage"
	"github.com/kloop-dev/kloop/resource"
)

// world has nodes and pods in it, in no order.
type world struct {
	resource.Reader
	objects map[resource.Kind][]resource.Object
}

func (w world) Each(k resource.Kind, ns string) iter.Seq[resource.Object] {
	return func(yield func(resource.Object) bool) {
		for _, obj := range w.objects[k] {
			if (ns == "" || obj.GetNamespace() == ns) && !yield(obj) {
				return
			}
		}
	}
}

func node(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

func pod(name, node string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, c := range containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
			corev1.ContainerStatus{Name: c, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	return p
}

// agent counts half a core for the container of pod a, and nothing for others.
func agent(asked *atomic.Int64, began time.Time) func(context.Context, *corev1.Node) (*usage.Summary, error) {
	return func(_ context.Context, n *corev1.Node) (*usage.Summary, error) {
		asked.Add(1)
		if n.Name == "mute" {
			return nil, errors.New("no answer")
		}
		now := time.Now()
		total, memory := uint64(now.Sub(began)/2), uint64(1<<20)
		use := usage.Count{Start: began, Total: &total, Memory: &memory}
		return &usage.Summary{At: now, Node: use, Containers: map[usage.Container]usage.Count{{Namespace: "ns", Pod: "a", UID: "u",
			Name: "c"}: use}}, nil
	}
}

func TestCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{objects: map[resource.Kind][]resource.Object{
			kinds.Nodes: {node("n", corev1.ConditionTrue), node("lost", corev1.ConditionUnknown), node("mute", corev1.ConditionTrue)},
			kinds.Pods:  {pod("a", "n", "c"), pod("b", "n", "not counted"), pod("c", "mute", "c"), pod("d", "")}}}
		var asked atomic.Int64
		c := metrics.New(metrics.Config{Read: func() resource.Reader { return w }, Ask: agent(&asked, time.Now().Add(-time.Hour)),
			Log: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Run(ctx) }()
		time.Sleep(time.Hour)
		if n := asked.Load(); n != 0 {
			t.Errorf("%d questions to agents though nobody asked", n)
		}
		list, err := c.Objects(ctx, metricskinds.Pods, "", "")
		if err != nil || len(list) != 1 {
			t.Fatalf("pods: %v, %v", list, err)
		}
		got := list[0].(*metricsv1beta1.PodMetrics)
		if use := got.Containers[0].Usage; got.Name != "a" || use.Cpu().MilliValue() != 500 || use.Memory().Value() != 1<<20 ||
			got.Window.Duration != time.Second {
			t.Errorf("got %v", got)
		}
		list, err = c.Objects(ctx, metricskinds.Nodes, "", "n")
		if err != nil || len(list) != 1 || list[0].(*metricsv1beta1.NodeMetrics).Usage.Cpu().MilliValue() != 500 {
			t.Errorf("nodes: %v, %v", list, err)
		}
		if list, err = c.Objects(ctx, metricskinds.Pods, "elsewhere", ""); len(list) != 0 || err != nil {
			t.Errorf("pods of another namespace: %v, %v", list, err)
		}
		time.Sleep(time.Minute)
		list, _ = c.Objects(ctx, metricskinds.Pods, "ns", "a")
		if w := list[0].(*metricsv1beta1.PodMetrics).Window.Duration; w != 15*time.Second {
			t.Errorf("a minute later the window is %v", w)
		}
		time.Sleep(time.Hour)
		n := asked.Load()
		time.Sleep(time.Hour)
		if asked.Load() != n {
			t.Error("agents are asked long after anybody was interested")
		}
		stop()
		<-done
	})
}

func TestRestartedContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{objects: map[resource.Kind][]resource.Object{kinds.Nodes: {node("n", corev1.ConditionTrue)}, kinds.Pods: {pod("a", "n", "c")}}}
		counts := []uint64{1e9, 5e8} // it began anew between the two
		began := []time.Time{time.Now().Add(-time.Hour), time.Now()}
		i := 0
		c := metrics.New(metrics.Config{Read: func() resource.Reader { return w }, Log: slog.New(slog.DiscardHandler),
			Ask: func(context.Context, *corev1.Node) (*usage.Summary, error) {
				memory := uint64(1)
				u := usage.Count{Start: began[i], Total: &counts[i], Memory: &memory}
				i++
				return &usage.Summary{At: time.Now(), Node: u,
					Containers: map[usage.Container]usage.Count{{Namespace: "ns", Pod: "a", UID: "u", Name: "c"}: u}}, nil
			}})
		list, err := c.Objects(t.Context(), metricskinds.Pods, "", "")
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		if cpu := list[0].(*metricsv1beta1.PodMetrics).Containers[0].Usage.Cpu().MilliValue(); cpu != 500 {
			t.Errorf("half a second of CPU in the second since it began is %dm", cpu)
		}
	})
}

func TestParse(t *testing.T) {
	s, err := usage.Parse([]byte(
		`{"node":{"cpu":{"usageCoreNanoSeconds":7},"memory":{"workingSetBytes":8}},"pods":[{"podRef":{"name":"p","namespace":"ns","uid":"u"},
		"containers":[{"name":"c","startTime":"2026-01-01T00:00:00Z","cpu":{"usageNanoCores":5},"memory":{"workingSetBytes":6}}]}]}`),
		time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	u := s.Containers[usage.Container{Namespace: "ns", Pod: "p", UID: "u", Name: "c"}]
	if *s.Node.Total != 7 || *s.Node.Memory != 8 || u.Total != nil || *u.Rate != 5 || *u.Memory != 6 || u.Start.Year() != 2026 {
		t.Errorf("%+v, %+v", s.Node, u)
	}
	if _, err := usage.Parse([]byte("{"), time.Time{}); err == nil {
		t.Error("half a summary was read")
	}
}

// TestHungNode: an agent that does not answer, though its node is ready, holds up who asks once, and then nobody: those who ask for what
// other nodes know are answered at once, also while the agent is asked again.
func TestHungNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{objects: map[resource.Kind][]resource.Object{
			kinds.Nodes: {node("n", corev1.ConditionTrue), node("hung", corev1.ConditionTrue)}, kinds.Pods: {pod("a", "n", "c")}}}
		var asked, hung atomic.Int64
		answers := agent(&asked, time.Now().Add(-time.Hour))
		var mended atomic.Bool
		c := metrics.New(metrics.Config{Read: func() resource.Reader { return w }, Log: slog.New(slog.DiscardHandler),
			Ask: func(ctx context.Context, n *corev1.Node) (*usage.Summary, error) {
				if n.Name == "hung" && !mended.Load() {
					hung.Add(1)
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return answers(ctx, n)
			}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Run(ctx) }()
		began := time.Now()
		for i := range 120 {
			asking := time.Now()
			list, err := c.Objects(ctx, metricskinds.Pods, "", "")
			if took := time.Since(asking); err != nil || len(list) != 1 || took > 0 && i > 0 {
				t.Fatalf("%v, %v after %v at %v", list, err, took, time.Since(began))
			}
			time.Sleep(time.Second)
		}
		if n, most := hung.Load(), int64(time.Since(began)/(10*time.Second)); n < 3 || n > most {
			t.Errorf("it was asked %d times", n)
		}
		mended.Store(true)
		time.Sleep(time.Minute)
		if list, err := c.Objects(ctx, metricskinds.Nodes, "", ""); err != nil || len(list) != 2 {
			t.Errorf("%v, %v once it answers", list, err)
		}
		stop()
		<-done
	})
}
