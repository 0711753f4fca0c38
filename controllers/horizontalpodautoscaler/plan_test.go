package horizontalpodautoscaler

import (
	"errors"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func rules(window int32, choice autoscalingv2.ScalingPolicySelect,
	policies ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
	return &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &window, SelectPolicy: &choice, Policies: policies}
}

func policy(t autoscalingv2.HPAScalingPolicyType, value, period int32) autoscalingv2.HPAScalingPolicy {
	return autoscalingv2.HPAScalingPolicy{Type: t, Value: value, PeriodSeconds: period}
}

const (
	byPods    = autoscalingv2.PodsScalingPolicy
	byPercent = autoscalingv2.PercentScalingPolicy
	most      = autoscalingv2.MaxChangePolicySelect
	least     = autoscalingv2.MinChangePolicySelect
	never     = autoscalingv2.DisabledPolicySelect
)

func TestSteady(t *testing.T) {
	slow := &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(60, most), ScaleDown: rules(120, most)}
	for _, tt := range []struct {
		name          string
		behavior      *autoscalingv2.HorizontalPodAutoscalerBehavior
		current, wish int32
		advice        []point
		want          int32
	}{
		{"grows at once", nil, 2, 8, []point{{2, ago(time.Second)}}, 8},
		{"shrinks to the largest of five minutes", nil, 9, 2, []point{{9, ago(6 * time.Minute)}, {5, ago(4 * time.Minute)}}, 5},
		{"grows to the smallest of its window", slow, 2, 8, []point{{6, ago(30 * time.Second)}, {3, ago(2 * time.Minute)}}, 6},
		{"does not shrink while it should grow", slow, 4, 8, []point{{1, ago(30 * time.Second)}}, 4},
		{"shrinks to the largest of its window", slow, 9, 2, []point{{9, ago(3 * time.Minute)}, {4, ago(time.Minute)}}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := steady(tt.behavior, tt.current, tt.wish, tt.advice, noon); got.n != tt.want {
				t.Errorf("%s: %d, want %d", tt.name, got.n, tt.want)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	up := func(choice autoscalingv2.ScalingPolicySelect, p ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HorizontalPodAutoscalerBehavior {
		return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0, choice, p...), ScaleDown: rules(0, choice, p...)}
	}
	for _, tt := range []struct {
		name          string
		behavior      *autoscalingv2.HorizontalPodAutoscalerBehavior
		current, wish int32
		scales        []point
		want          int32
		reason        string
	}{
		{"within", nil, 5, 7, nil, 7, "DesiredWithinRange"},
		{"too many", nil, 60, 150, nil, 100, "TooManyReplicas"},
		{"too few", nil, 5, 1, nil, 2, "TooFewReplicas"},
		{"to four from one", nil, 1, 50, nil, 4, "ScaleUpLimit"},
		{"twofold", nil, 10, 50, nil, 20, "ScaleUpLimit"},
		{"by pods", up(most, policy(byPods, 3, 60)), 10, 50, nil, 13, "ScaleUpLimit"},
		{"by pods, some have come already", up(most, policy(byPods, 3, 60)), 12, 50, []point{{2, ago(30 * time.Second)}}, 13, "ScaleUpLimit"},
		{"by pods, some came long ago", up(most, policy(byPods, 3, 60)), 12, 50, []point{{2, ago(2 * time.Minute)}}, 15, "ScaleUpLimit"},
		{"the larger of two", up(most, policy(byPods, 3, 60), policy(byPercent, 50, 60)), 10, 50, nil, 15, "ScaleUpLimit"},
		{"the smaller of two", up(least, policy(byPods, 3, 60), policy(byPercent, 50, 60)), 10, 50, nil, 13, "ScaleUpLimit"},
		{"percent round up", up(most, policy(byPercent, 10, 60)), 11, 50, nil, 13, "ScaleUpLimit"},
		{"not at all up", up(never), 10, 50, nil, 10, "ScaleUpLimit"},
		{"down by pods", up(most, policy(byPods, 3, 60)), 10, 2, nil, 7, "ScaleDownLimit"},
		{"down by percent", up(most, policy(byPercent, 50, 60)), 11, 2, nil, 5, "ScaleDownLimit"},
		{"down, some have gone already", up(most, policy(byPods, 3, 60)), 8, 2, []point{{-2, ago(time.Second)}}, 7, "ScaleDownLimit"},
		{"down, the smaller of two", up(least, policy(byPods, 3, 60), policy(byPods, 1, 60)), 10, 2, nil, 9, "ScaleDownLimit"},
		{"not at all down", up(never), 10, 2, nil, 10, "ScaleDownLimit"},
		{"down to the least", up(most, policy(byPercent, 100, 60)), 10, 0, nil, 2, "TooFewReplicas"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := limit(tt.behavior, bounds{tt.current, 2, 100}, tt.wish, tt.scales, noon)
			if got.n != tt.want || got.reason != tt.reason {
				t.Errorf("%s: %d %s, want %d %s", tt.name, got.n, got.reason, tt.want, tt.reason)
			}
		})
	}
}

// TestValueOf: the event of metrics that can't be had names the first of them.
func TestValueOf(t *testing.T) {
	for want, spec := range map[string]autoscalingv2.MetricSpec{
		"cpu resource metric value":  {Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu"}},
		"web container metric value": {ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: "cpu", Container: "web"}},
		"pods metric value":          {Pods: &autoscalingv2.PodsMetricSource{}},
		"object metric value":        {Object: &autoscalingv2.ObjectMetricSource{}},
		"queue external metric value": {External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: "queue"}}},
	} {
		t.Run(want, func(t *testing.T) {
			if got := valueOf(spec); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	two := int32(2)
	h := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: &two, MaxReplicas: 10}}
	h.Generation = 3
	of := func(n int32, m measured) sight {
		return sight{target: target{scale: resource.Scale{Replicas: n}}, metrics: m, now: noon}
	}
	load := func(n int32) measured { return measured{replicas: n, metric: "cpu"} }
	failed := measured{err: errors.New("no"), partly: errors.New("none"), reason: "FailedGetResourceMetric",
		faults: []fault{{"FailedGetResourceMetric", "none"}, {"FailedGetPodsMetric", "none either"}}}
	half := measured{replicas: 6, metric: "cpu", partly: errors.New("none"), faults: []fault{{"FailedGetPodsMetric", "none"}}}
	for _, tt := range []struct {
		name    string
		sight   sight
		advice  []point
		desired int32
		rescale bool
		say     string // of conditions, as type=status:reason
		events  int
	}{
		{"no target", sight{failed: errors.New("gone"), now: noon}, nil, 0, false, "AbleToScale=False:FailedGetScale", 1},
		{"switched off", sight{now: noon, off: true}, nil, 0, false, "AbleToScale=True:SucceededGetScale ScalingActive=False:ScalingDisabled", 0},
		{"too large", of(12, measured{}), nil, 10, true, "AbleToScale=True:SucceededRescale", 0},
		{"too small", of(1, measured{}), nil, 2, true, "AbleToScale=True:SucceededRescale", 0},
		{"more load", of(4, load(6)), nil, 6, true,
			"AbleToScale=True:SucceededRescale ScalingActive=True:ValidMetricFound ScalingLimited=False:DesiredWithinRange", 0},
		{"much more load", of(4, load(50)), nil, 8, true,
			"AbleToScale=True:SucceededRescale ScalingActive=True:ValidMetricFound ScalingLimited=True:ScaleUpLimit", 0},
		{"as much load", of(4, load(4)), nil, 4, false,
			"AbleToScale=True:ReadyForNewScale ScalingActive=True:ValidMetricFound ScalingLimited=False:DesiredWithinRange", 0},
		{"less load, lately more", of(4, load(2)), []point{{4, ago(time.Minute)}}, 4, false,
			"AbleToScale=True:ScaleDownStabilized ScalingActive=True:ValidMetricFound ScalingLimited=False:DesiredWithinRange", 0},
		{"no metrics", of(4, failed), nil, 0, false, "AbleToScale=True:SucceededGetScale ScalingActive=False:FailedGetResourceMetric", 3},
		{"half the metrics, more load", of(4, half), nil, 6, true,
			"AbleToScale=True:SucceededRescale ScalingActive=True:ValidMetricFound ScalingLimited=False:DesiredWithinRange", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := plan(h, tt.sight, history{advice: tt.advice})
			var say []string
			for _, c := range got.status.Conditions {
				say = append(say, string(c.Type)+"="+string(c.Status)+":"+c.Reason)
			}
			if seen := got.status.ObservedGeneration; (seen != nil) != (tt.sight.failed == nil) {
				t.Errorf("%s: observed generation %v", tt.name, seen)
			}
			if got.status.DesiredReplicas != tt.desired || got.rescale != tt.rescale || strings.Join(say, " ") != tt.say ||
				len(got.events) != tt.events {
				t.Errorf("%s: %d rescale %v %s, events %v", tt.name, got.status.DesiredReplicas, got.rescale, say, got.events)
			}
		})
	}
}

func TestMemory(t *testing.T) {
	m, key := newMemory(), loop.Key{Name: "h"}
	if p := m.past(key, 3, noon); len(p.advice) != 1 || p.advice[0].n != 3 {
		t.Errorf("a new one's past: %v", p)
	}
	n := int32(5)
	for i := range 1000 {
		m.recommended(key, &n, longest, noon.Add(time.Duration(i)*time.Second))
	}
	m.scaled(key, 2, noon)
	m.scaled(key, 0, noon)
	if p := m.past(key, 3, noon.Add(1000*time.Second)); len(p.advice) != 3 || len(p.scales) != 1 {
		t.Errorf("%d recommendations and %d changes kept", len(p.advice), len(p.scales))
	}
	if p := m.past(key, 3, noon.Add(2*time.Hour)); len(p.advice)+len(p.scales) != 0 {
		t.Errorf("after two hours: %v", p)
	}
	one := int32(1)
	m.recommended(key, &n, longest, noon)
	m.recommended(key, &one, 0, noon.Add(time.Second))
	if p := m.past(key, 3, noon.Add(2*time.Second)); len(p.advice) != 1 || p.advice[0].n != 1 {
		t.Errorf("without a window %v are remembered", p.advice)
	}
	m.forget(key)
	if len(m.keys) != 0 {
		t.Error("remembers what is gone")
	}
}

// TestScaleToZero: whose autoscaler took the last pod away brings it back, by metrics that need no pods or for a larger least size; what
// a person scaled to zero stays (KEP-2021).
func TestScaleToZero(t *testing.T) {
	zero, three, on := int32(0), int32(3), (*features.Set)(nil)
	load := func(n int32) measured { return measured{replicas: n, metric: "queue"} }
	queue := []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType}}
	cpu := []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType}}
	slept := []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScaledToZero, Status: corev1.ConditionTrue}}
	for _, tt := range []struct {
		name          string
		least         *int32
		metrics       []autoscalingv2.MetricSpec
		conditions    []autoscalingv2.HorizontalPodAutoscalerCondition
		now, load     int32
		off           bool
		desired       int32
		zero, because string
	}{
		{"no load", &zero, queue, nil, 1, 0, false, 0, "True", "All metrics below target"},
		{"no load, but of CPU", &zero, cpu, nil, 2, 0, false, 0, "False", "All metrics below target"},
		{"less load", &zero, queue, nil, 4, 2, false, 2, "False", "All metrics below target"},
		{"load again", &zero, queue, slept, 0, 3, false, 3, "False", "queue above target"},
		{"much load", &zero, queue, slept, 0, 30, false, 4, "False", "queue above target"},
		{"still none", &zero, queue, slept, 0, 0, false, 0, "True", ""},
		{"by a person", &zero, queue, nil, 0, 3, true, 0, "", ""},
		{"metrics that need pods", &zero, cpu, slept, 0, 3, true, 0, "True", ""},
		{"a larger least size", &three, cpu, slept, 0, 0, false, 3, "False", "Current number of replicas below Spec.MinReplicas"},
		{"a larger least size, by a person", &three, queue, nil, 0, 3, true, 0, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &autoscalingv2.HorizontalPodAutoscaler{Status: autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: tt.conditions},
				Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: tt.least, MaxReplicas: 10, Metrics: tt.metrics}}
			seen := sight{target: target{scale: resource.Scale{Replicas: tt.now}}, now: noon, off: off(h, on, tt.now)}
			if !seen.off {
				seen.metrics = load(tt.load)
			}
			got := plan(h, seen, history{})
			if got.rescale {
				got.zeroed(h, tt.now)
			}
			condition := ""
			for _, c := range got.status.Conditions {
				if c.Type == autoscalingv2.ScaledToZero {
					condition = string(c.Status)
				}
			}
			if seen.off != tt.off || got.status.DesiredReplicas != tt.desired || condition != tt.zero || got.why != tt.because {
				t.Errorf("off %v, to %d as %q, scaled to zero %q", seen.off, got.status.DesiredReplicas, got.why, condition)
			}
		})
	}
	if old, err := features.New(36, nil); err != nil || !off(&autoscalingv2.HorizontalPodAutoscaler{}, old, 0) {
		t.Errorf("1.36 scales from zero (%v)", err)
	}
}
