package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// pods makes pods a, b, c… by what they are: r ready, p pending, f failed, d going, n not ready since ever, y ready but
// young.
func pods(what string) (list []*corev1.Pod) {
	for i, c := range what {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i))},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": apiresource.MustParse("100m")}}}}}}
		start := noon.Add(-time.Hour)
		ready, since := corev1.ConditionTrue, start.Add(time.Second)
		p.Status.Phase = corev1.PodRunning
		switch c {
		case 'p':
			p.Status.Phase = corev1.PodPending
		case 'f':
			p.Status.Phase = corev1.PodFailed
		case 'd':
			p.DeletionTimestamp = &metav1.Time{Time: noon}
		case 'n':
			ready = corev1.ConditionFalse
		case 'y':
			start = noon.Add(-time.Minute)
			since = noon.Add(-10 * time.Second)
		}
		p.Status.StartTime = &metav1.Time{Time: start}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(since)}}
		list = append(list, p)
	}
	return list
}

// used gives pods a, b, c… their use; -1: unknown.
func used(values ...int64) readings {
	out := readings{}
	for i, v := range values {
		if v >= 0 {
			out[string(rune('a'+i))] = reading{v, noon, 30 * time.Second}
		}
	}
	return out
}

func TestWantedByUtilization(t *testing.T) {
	for _, tt := range []struct {
		name    string
		pods    string
		use     readings
		current int32
		want    int32
		err     error
	}{
		{"as wanted", "rr", used(50, 50), 2, 2, nil},
		{"a little more", "rr", used(54, 54), 2, 2, nil},
		{"twice as much", "rr", used(100, 100), 2, 4, nil},
		{"a third", "rrr", used(17, 17, 17), 3, 2, nil},
		{"nothing", "rrr", used(0, 0, 0), 3, 0, nil},
		{"more, one has no value: it counts as idle", "rrr", used(100, 100, -1), 3, 4, nil},
		{"less, one has no value: it counts as busy", "rrr", used(10, 10, -1), 3, 3, nil},
		{"more, one is not ready: it counts as idle", "rrn", used(100, 100, 0), 3, 4, nil},
		{"less, one is not ready: it does not count", "rrn", used(10, 10, 400), 3, 1, nil},
		{"a young one's start is no load", "rry", used(50, 50, 900), 3, 3, nil},
		{"pending ones hold growth back", "rpp", used(90, -1, -1), 3, 3, nil},
		{"the dead do not count", "rfd", used(100, 900, 900), 1, 2, nil},
		{"nobody has a value", "rr", used(-1, -1), 2, 0, errNoPods},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := pods(tt.pods)
			s := sortOut(list, tt.use, true, noon)
			asked, err := requested(list, "", corev1.ResourceCPU)
			if err != nil {
				t.Fatal(err)
			}
			s.requests = asked
			got, err := wanted(s, tt.current, band{0.1, 0.1},
				func(s sample) (float64, error) { p, _, err := utilization(s); return float64(p) / 50, err },
				func(pod string, _ bool) int64 { return asked[pod] })
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%s: %d, %v; want %d, %v", tt.name, got, err, tt.want, tt.err)
			}
		})
	}
}

func TestRequested(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	ask := func(name, cpu string) corev1.Container {
		c := corev1.Container{Name: name}
		if cpu != "" {
			c.Resources.Requests = corev1.ResourceList{"cpu": apiresource.MustParse(cpu)}
		}
		return c
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{ask("a", "100m"), ask("b", "50m")},
			InitContainers: []corev1.Container{ask("once", "1"), ask("side", "10m")}}}
	p.Spec.InitContainers[1].RestartPolicy = &always
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.PodSpec{Containers: []corev1.Container{ask("a", "")}}}
	whole := p.DeepCopy()
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": apiresource.MustParse("2")}}
	for _, tt := range []struct {
		name, container string
		pod             *corev1.Pod
		want            int64
		err             string
	}{
		{"all that run on", "", p, 160, ""},
		{"one", "b", p, 50, ""},
		{"a sidecar", "side", p, 10, ""},
		{"the pod's own", "", whole, 2000, ""},
		{"no request", "", bare, 0, "missing request for cpu in container a of Pod q"},
		{"no such container", "z", p, 0, "container z not found in Pod p"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := requested([]*corev1.Pod{tt.pod}, tt.container, corev1.ResourceCPU)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("%s: %v, want %s", tt.name, err, tt.err)
				}
			} else if err != nil || got[tt.pod.Name] != tt.want {
				t.Errorf("%s: %v, %v; want %d", tt.name, got, err, tt.want)
			}
		})
	}
}

func TestSumOfContainers(t *testing.T) {
	var p podUse
	for _, c := range []struct{ name, cpu string }{{"a", "10m"}, {"b", "1"}} {
		p.Containers = append(p.Containers, struct {
			Name  string              `json:"name"`
			Usage corev1.ResourceList `json:"usage"`
		}{c.name, corev1.ResourceList{"cpu": apiresource.MustParse(c.cpu)}})
	}
	got := []string{}
	for _, container := range []string{"", "b", "z"} {
		v, ok := p.sum(corev1.ResourceCPU, container)
		got = append(got, fmt.Sprint(v, ok))
	}
	if text := strings.Join(got, " "); text != "1010 true 1000 true 0 false" {
		t.Error(text)
	}
	if _, ok := p.sum(corev1.ResourceMemory, ""); ok {
		t.Error("a memory use that nobody gave")
	}
}

// Rules of a direction may say how far off is near enough there; the other keeps a tenth.
func TestTolerance(t *testing.T) {
	rules := func(q string) *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{Tolerance: new(apiresource.MustParse(q))}
	}
	for _, tt := range []struct {
		behavior *autoscalingv2.HorizontalPodAutoscalerBehavior
		ratio    float64
		rests    bool
	}{
		{nil, 1.09, true}, {nil, 0.91, true}, {nil, 1.11, false}, {nil, 0.89, false},
		{&autoscalingv2.HorizontalPodAutoscalerBehavior{}, 1.11, false},
		{&autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules("10")}, 9, true},
		{&autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules("10")}, 0.8, false},
		{&autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules("0.01"), ScaleDown: rules("0.99")}, 1.05, false},
		{&autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules("0.01"), ScaleDown: rules("0.99")}, 0.1, true},
		{&autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: rules("0")}, 0.999, false},
	} {
		h := &autoscalingv2.HorizontalPodAutoscaler{}
		h.Spec.Behavior = tt.behavior
		if got := tolerance(h).holds(tt.ratio); got != tt.rests {
			t.Errorf("%+v: %v is near enough: %t", tt.behavior, tt.ratio, got)
		}
	}
}
