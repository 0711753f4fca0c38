package controllers_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A loaded is a cluster whose pods, of containers "c" and "side", share a load, as the three metrics APIs tell: m of CPU, Mi of memory,
// and the number itself of "rps". The sidecar has a load of its own in each pod.
type loaded struct {
	*cluster
	load, side atomic.Int64
	none       atomic.Bool // custom and external metrics are not known
	asked      atomic.Pointer[string]
}

func underLoad(c *cluster) *loaded {
	l := &loaded{cluster: c}
	serve := http.HandlerFunc(l.serve)
	c.adapter.Store(&serve)
	return l
}

func (l *loaded) pods() (list []*corev1.Pod) {
	for obj := range l.Read().ByLabel(kinds.Pods, "default", "app", "d") {
		if p := obj.(*corev1.Pod); p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			list = append(list, p)
		}
	}
	return list
}

type object = map[string]any

func (l *loaded) serve(w http.ResponseWriter, r *http.Request) {
	list, load := l.pods(), l.load.Load()
	share := load / int64(max(1, len(list)))
	stamp := l.now().UTC().Format(time.RFC3339)
	var items []object
	switch path, own := strings.CutPrefix(r.URL.Path, "/apis/metrics.k8s.io/v1beta1/namespaces/default/"); {
	case own && path == "pods":
		for _, p := range list {
			var containers []object
			for _, c := range p.Spec.Containers {
				use := map[string]int64{"c": share, "side": l.side.Load()}[c.Name]
				containers = append(containers, object{"name": c.Name,
					"usage": object{"cpu": fmt.Sprintf("%dm", use), "memory": fmt.Sprintf("%dMi", use)}})
			}
			items = append(items, object{"metadata": object{"name": p.Name, "namespace": "default"}, "timestamp": stamp, "window": "15s",
				"containers": containers})
		}
	case l.none.Load():
		http.NotFound(w, r)
		return
	case strings.HasSuffix(r.URL.Path, "/namespaces/default/pods/*/rps"):
		for _, p := range list {
			items = append(items, object{"describedObject": object{"name": p.Name}, "timestamp": stamp, "value": fmt.Sprint(share)})
		}
	default: // of an object or of nothing in the cluster: latency goes down with more pods, any other metric does not
		if strings.HasSuffix(r.URL.Path, "/latency") {
			load = share
		}
		items = append(items, object{"timestamp": stamp, "value": fmt.Sprint(load)})
	}
	l.asked.Store(&r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object{"items": items})
}

// sized is the size that the Deployment is to have.
func (l *loaded) sized() int {
	return int(*resource.Get(l.Read(), kinds.Deployments, "default", "d").Spec.Replicas)
}

// follow makes an autoscaler of at most ten pods for the Deployment d.
func (l *loaded) follow(b *autoscalingv2.HorizontalPodAutoscalerBehavior, metrics ...autoscalingv2.MetricSpec) {
	make1(l.cluster, kinds.HorizontalPodAutoscalers, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta("h"),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(1)), MaxReplicas: 10, Behavior: b, Metrics: metrics,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"}}})
}

// busy is a Deployment of n pods, each with a sidecar; both containers request 100m and 100Mi. whole is what their pods request.
func busy(n int32, whole string) *appsv1.Deployment {
	return deployed(n, func(d *appsv1.DeploymentSpec) {
		s := &d.Template.Spec
		s.Containers = append(s.Containers, corev1.Container{Name: "side", Image: "i:1"})
		for i := range s.Containers {
			s.Containers[i].Resources.Requests = corev1.ResourceList{"cpu": apiresource.MustParse("100m"),
				"memory": apiresource.MustParse("100Mi")}
		}
		if whole != "" {
			s.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": apiresource.MustParse(whole)}}
		}
	})
}

func percent(p int32) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &p}
}

func mean(q string) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(apiresource.MustParse(q))}
}

func value(q string) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: new(apiresource.MustParse(q))}
}

func ofPods(name corev1.ResourceName, t autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: name, Target: t}}
}

func ofContainer(name corev1.ResourceName, t autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType,
		ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: name, Container: "c", Target: t}}
}

func ofObject(kind, name, metric string, t autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{Target: t,
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: kind, Name: name},
		Metric:          autoscalingv2.MetricIdentifier{Name: metric}}}
}

func outside(metric string, t autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Target: t,
		Metric: autoscalingv2.MetricIdentifier{Name: metric}}}
}

// atOnce lets targets shrink without delay.
func atOnce() *autoscalingv2.HorizontalPodAutoscalerBehavior {
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32)}}
}

// TestAutoscalerByEachMetric follows a load up and down by each kind of metric and of target, each such that a pod carries 100. What a
// sidecar does counts for metrics of whole pods alone.
func TestAutoscalerByEachMetric(t *testing.T) {
	for _, tt := range []struct {
		name   string
		whole  string // request of the pods
		metric autoscalingv2.MetricSpec
		side   bool   // the sidecars are busy, too
		asked  string // the path of the last question about metrics
	}{
		{name: "cpu, utilization", metric: ofPods("cpu", percent(50))},
		{name: "cpu, average value", metric: ofPods("cpu", mean("100m"))},
		{name: "memory, utilization", metric: ofPods("memory", percent(50))},
		{name: "memory, average value", metric: ofPods("memory", mean("100Mi"))},
		{name: "cpu of a container, utilization", metric: ofContainer("cpu", percent(100)), side: true},
		{name: "cpu of a container, average value", metric: ofContainer("cpu", mean("100m")), side: true},
		{name: "memory of a container, utilization", metric: ofContainer("memory", percent(100)), side: true},
		{name: "memory of a container, average value", metric: ofContainer("memory", mean("100Mi")), side: true},
		{name: "cpu of pods with a request of their own", whole: "400m", metric: ofPods("cpu", percent(25))},
		{name: "cpu of a container, beside a request of the pods", whole: "400m", metric: ofContainer("cpu", percent(100)), side: true},
		{name: "metric of each pod", metric: autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType,
			Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "rps"}, Target: mean("100")}}},
		{name: "object, value", metric: ofObject("Service", "web", "latency", value("100")),
			asked: "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/services/web/latency"},
		{name: "object, average value", metric: ofObject("Service", "web", "rps", mean("100")),
			asked: "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/services/web/rps"},
		{name: "namespace, whichever is named", metric: ofObject("Namespace", "kube-system", "rps", mean("100")),
			asked: "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/metrics/rps"},
		{name: "external, value", metric: outside("latency", value("100"))},
		{name: "external, average value", metric: outside("rps", mean("100")),
			asked: "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/rps"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			simulate(t, 1, func(c *cluster) {
				l := underLoad(c)
				if tt.side {
					l.side.Store(5000)
				}
				make1(c, kinds.Deployments, busy(1, tt.whole))
				l.load.Store(100)
				l.follow(atOnce(), tt.metric)
				for _, n := range []int{1, 3, 5, 3, 1} {
					l.load.Store(int64(100 * n))
					c.until(fmt.Sprintf("%d pods", n), func(r resource.Reader) bool {
						h := resource.Get(r, kinds.HorizontalPodAutoscalers, "default", "h").Status
						return ready(r, "app", "d") == n && h.CurrentReplicas == int32(n) && h.DesiredReplicas == int32(n)
					})
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					if got := l.sized(); got != n {
						t.Errorf("%d pods with a load for %d", got, n)
					}
				}
				if got := *l.asked.Load(); tt.asked != "" && got != tt.asked {
					t.Errorf("asked for %s", got)
				}
			})
		})
	}
}

// TestAutoscalerGoesByTheLargest has two metrics: the larger demand counts, and while one can't be had the other can't make the target
// smaller.
func TestAutoscalerGoesByTheLargest(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		l := underLoad(c)
		make1(c, kinds.Deployments, busy(2, ""))
		l.load.Store(200)
		l.follow(atOnce(), outside("rps", mean("100")), ofPods("cpu", mean("50m")))
		for _, step := range []struct {
			what string
			load int64
			none bool
			pods int
		}{{"the second calls for more", 200, false, 4}, {"one is missing, more load", 300, true, 6},
			{"one is missing, less load", 100, true, 6}, {"both are there", 100, false, 2}} {
			l.none.Store(step.none)
			l.load.Store(step.load)
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			if got := l.sized(); got != step.pods {
				t.Errorf("%s: %d pods, want %d", step.what, got, step.pods)
			}
		}
	})
}

// TestAutoscalerFromZero takes the last pod away when there is no load, and brings one back for what one pod would just carry.
func TestAutoscalerFromZero(t *testing.T) {
	for name, target := range map[string]autoscalingv2.MetricTarget{"value": value("100"), "average value": mean("100")} {
		t.Run(name, func(t *testing.T) {
			simulate(t, 1, func(c *cluster) {
				l := underLoad(c)
				make1(c, kinds.Deployments, busy(1, ""))
				l.load.Store(100)
				l.follow(atOnce(), outside("rps", target))
				edit(c, kinds.HorizontalPodAutoscalers, "default", "h", "", func(h *autoscalingv2.HorizontalPodAutoscaler) {
					h.Spec.MinReplicas = new(int32)
				})
				for _, step := range []struct {
					load int64
					pods int
				}{{100, 1}, {0, 0}, {100, 1}, {0, 0}, {95, 1}} {
					l.load.Store(step.load)
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					if got := l.sized(); got != step.pods {
						t.Errorf("a load of %d: %d pods, want %d", step.load, got, step.pods)
					}
				}
			})
		})
	}
}

// TestAutoscalerBehavior says how fast a target follows a load that changes at once, by the size and the seconds since.
func TestAutoscalerBehavior(t *testing.T) {
	type rules = autoscalingv2.HPAScalingRules
	by := func(typ autoscalingv2.HPAScalingPolicyType, n int32) *rules {
		return &rules{StabilizationWindowSeconds: new(int32),
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: typ, Value: n, PeriodSeconds: 60}}}
	}
	const byPods, byPercent = autoscalingv2.PodsScalingPolicy, autoscalingv2.PercentScalingPolicy
	never := &rules{StabilizationWindowSeconds: new(int32), SelectPolicy: new(autoscalingv2.DisabledPolicySelect)}
	for _, tt := range []struct {
		name     string
		up, down *rules
		from, to int
		sizes    string
		after    time.Duration // the first change comes no earlier,
		apart    time.Duration // and the next ones after it
	}{
		{"no more than some pods a minute", by(byPods, 1), nil, 2, 4, "3 4", 0, time.Minute},
		{"some percent a minute", by(byPercent, 50), nil, 2, 6, "3 5 6", 0, time.Minute},
		{"down no more than some pods a minute", nil, by(byPods, 1), 4, 2, "3 2", 0, time.Minute},
		{"down some percent a minute", nil, by(byPercent, 25), 7, 3, "5 3", 0, time.Minute},
		{"never up", never, nil, 2, 6, "", 0, 0},
		{"never down", nil, never, 4, 1, "", 0, 0},
		{"up after the window", &rules{StabilizationWindowSeconds: new(int32(180))}, nil, 2, 4, "4", 165 * time.Second, 0},
		{"down after a short window", nil, &rules{StabilizationWindowSeconds: new(int32(60))}, 4, 2, "2", 45 * time.Second, 0},
		{"down after the usual window", nil, nil, 4, 2, "2", 285 * time.Second, 0},
		{"not beyond a large tolerance", &rules{Tolerance: new(apiresource.MustParse("10"))}, nil, 2, 6, "", 0, 0},
		{"beyond a small tolerance", &rules{Tolerance: new(apiresource.MustParse("0.01"))},
			&rules{Tolerance: new(apiresource.MustParse("0.99"))}, 2, 3, "3", 0, 0},
		{"not down within a tolerance", &rules{Tolerance: new(apiresource.MustParse("0.01"))},
			&rules{StabilizationWindowSeconds: new(int32), Tolerance: new(apiresource.MustParse("0.99"))}, 4, 2, "", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			simulate(t, 1, func(c *cluster) {
				l := underLoad(c)
				make1(c, kinds.Deployments, busy(int32(tt.from), ""))
				l.load.Store(int64(100 * tt.from))
				l.follow(&autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: tt.up, ScaleDown: tt.down}, outside("rps", mean("100")))
				time.Sleep(7 * time.Minute)
				l.load.Store(int64(100 * tt.to))
				start, size, last := time.Now(), tt.from, time.Duration(0)
				var sizes []string
				for range 8 * 60 {
					time.Sleep(time.Second)
					synctest.Wait()
					n := l.sized()
					if n == size {
						continue
					}
					since := time.Since(start)
					if len(sizes) == 0 && since < tt.after || len(sizes) > 0 && since-last < tt.apart {
						t.Errorf("%d pods after %v already", n, since)
					}
					sizes, size, last = append(sizes, fmt.Sprint(n)), n, since
				}
				if got := strings.Join(sizes, " "); got != tt.sizes {
					t.Errorf("sizes %q, want %q", got, tt.sizes)
				}
			})
		})
	}
}

// TestAutoscaledKinds scales each kind of workload that has a scale.
func TestAutoscaledKinds(t *testing.T) {
	pods := map[string]string{"app": "d"}
	tpl := busy(1, "").Spec.Template
	all := map[string]func(c *cluster){
		"ReplicaSet": func(c *cluster) {
			make1(c, kinds.ReplicaSets, &appsv1.ReplicaSet{ObjectMeta: meta("d"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1)),
				Selector: &metav1.LabelSelector{MatchLabels: pods}, Template: tpl}})
		},
		"StatefulSet": func(c *cluster) {
			make1(c, kinds.StatefulSets, &appsv1.StatefulSet{ObjectMeta: meta("d"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1)),
				Selector: &metav1.LabelSelector{MatchLabels: pods}, Template: tpl}})
		},
		"ReplicationController": func(c *cluster) {
			make1(c, kinds.ReplicationControllers, &corev1.ReplicationController{ObjectMeta: meta("d"),
				Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(1)), Selector: pods, Template: &tpl}})
		},
	}
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		t.Run(kind, func(t *testing.T) {
			simulate(t, 1, func(c *cluster) {
				l := underLoad(c)
				all[kind](c)
				l.load.Store(100)
				l.follow(atOnce(), ofPods("cpu", percent(50)))
				edit(c, kinds.HorizontalPodAutoscalers, "default", "h", "", func(h *autoscalingv2.HorizontalPodAutoscaler) {
					h.Spec.ScaleTargetRef.Kind = kind
					if kind == "ReplicationController" {
						h.Spec.ScaleTargetRef.APIVersion = "v1"
					}
				})
				for _, n := range []int{1, 2, 5, 3, 1} {
					l.load.Store(int64(100 * n))
					c.until(fmt.Sprintf("%d pods", n), func(r resource.Reader) bool { return ready(r, "app", "d") == n && len(l.pods()) == n })
				}
			})
		})
	}
}
