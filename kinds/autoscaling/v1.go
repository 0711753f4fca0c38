//go:build !reader

package autoscaling

import (
	"encoding/json"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/resource"
)

// The annotations in which v1 keeps what it has no fields for.
const (
	metricsKey    = "autoscaling.alpha.kubernetes.io/metrics"
	statusesKey   = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsKey = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorKey   = "autoscaling.alpha.kubernetes.io/behavior"
)

// older are the versions beside the one that is stored.
func older() []resource.Version[hpa] {
	return []resource.Version[hpa]{{
		GVK:  autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		New:  func() resource.Object { return &autoscalingv1.HorizontalPodAutoscaler{} },
		From: func(h hpa) resource.Object { return toV1(h) },
		To:   func(o resource.Object) hpa { return fromV1(o.(*autoscalingv1.HorizontalPodAutoscaler)) },
	}}
}

// toV1 converts from the hub. The one metric that v1 knows is a target for the utilization of CPU.
func toV1(h hpa) *autoscalingv1.HorizontalPodAutoscaler {
	out := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: *h.ObjectMeta.DeepCopy()}
	dropKept(&out.Annotations)
	keep := keeper{&out.Annotations}
	out.Spec.ScaleTargetRef = autoscalingv1.CrossVersionObjectReference(h.Spec.ScaleTargetRef)
	out.Spec.MinReplicas, out.Spec.MaxReplicas = h.Spec.MinReplicas, h.Spec.MaxReplicas
	var others []autoscalingv1.MetricSpec
	for _, m := range h.Spec.Metrics {
		if u := cpuTarget(m); u != nil && out.Spec.TargetCPUUtilizationPercentage == nil {
			out.Spec.TargetCPUUtilizationPercentage = u
			continue
		}
		others = append(others, metricToV1(m))
	}
	s := h.Status
	out.Status = autoscalingv1.HorizontalPodAutoscalerStatus{ObservedGeneration: s.ObservedGeneration, LastScaleTime: s.LastScaleTime,
		CurrentReplicas: s.CurrentReplicas, DesiredReplicas: s.DesiredReplicas}
	var current []autoscalingv1.MetricStatus
	for _, m := range s.CurrentMetrics {
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
		current = append(current, statusToV1(m))
	}
	keep.list(metricsKey, others, len(others))
	keep.list(statusesKey, current, len(current))
	keep.list(conditionsKey, conditionsToV1(s.Conditions), len(s.Conditions))
	if h.Spec.Behavior != nil {
		keep.list(behaviorKey, behaviorOf(h.Spec.Behavior), 1)
	}
	return out
}

func cpuTarget(m autoscalingv2.MetricSpec) *int32 {
	if m.Type != autoscalingv2.ResourceMetricSourceType || m.Resource == nil || m.Resource.Name != corev1.ResourceCPU {
		return nil
	}
	return m.Resource.Target.AverageUtilization
}

// fromV1 converts to the hub. Annotations that do not parse are dropped, as upstream drops them.
func fromV1(in *autoscalingv1.HorizontalPodAutoscaler) hpa {
	out := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: *in.ObjectMeta.DeepCopy()}
	kept := in.Annotations
	out.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef)
	out.Spec.MinReplicas, out.Spec.MaxReplicas = in.Spec.MinReplicas, in.Spec.MaxReplicas
	for _, m := range read[[]autoscalingv1.MetricSpec](kept, metricsKey) {
		out.Spec.Metrics = append(out.Spec.Metrics, metricFromV1(m))
	}
	if p := in.Spec.TargetCPUUtilizationPercentage; p != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpu(*p))
	}
	if b := read[*behavior](kept, behaviorKey); b != nil {
		out.Spec.Behavior = b.hub()
	}
	s := in.Status
	out.Status = autoscalingv2.HorizontalPodAutoscalerStatus{ObservedGeneration: s.ObservedGeneration, LastScaleTime: s.LastScaleTime,
		CurrentReplicas: s.CurrentReplicas, DesiredReplicas: s.DesiredReplicas}
	seen := false
	for _, m := range read[[]autoscalingv1.MetricStatus](kept, statusesKey) {
		hub := statusFromV1(m)
		if m.Type == autoscalingv1.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU {
			seen = true
		}
		out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, hub)
	}
	if p := s.CurrentCPUUtilizationPercentage; p != nil && !seen {
		out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, autoscalingv2.MetricStatus{Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{Name: corev1.ResourceCPU,
				Current: autoscalingv2.MetricValueStatus{AverageUtilization: p}}})
	}
	out.Status.Conditions = conditionsFromV1(read[[]autoscalingv1.HorizontalPodAutoscalerCondition](kept, conditionsKey))
	dropKept(&out.Annotations)
	return out
}

// A keeper writes annotations.
type keeper struct{ to *map[string]string }

// list keeps in an annotation what the v1 form has no field for, so that a client of v1 which writes back what it read loses nothing.
func (k keeper) list(key string, v any, n int) {
	if n == 0 {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		return // the API types always marshal
	}
	if *k.to == nil {
		*k.to = map[string]string{}
	}
	(*k.to)[key] = string(b)
}

// read takes what was kept out of an annotation. A person may have edited it: what can't be read counts as not there, as upstream.
func read[T any](from map[string]string, key string) (v T) {
	text, ok := from[key]
	if !ok {
		return v
	}
	var parsed T
	if spoiled := resource.SpoilQuantities([]byte(text)); spoiled != nil && json.Unmarshal(spoiled, &parsed) != nil {
		return v
	}
	if json.Unmarshal([]byte(text), &parsed) != nil {
		return v
	}
	return parsed
}

// dropKept leaves out the annotations that stand for fields. The map that a caller may share is copied first.
func dropKept(annotations *map[string]string) {
	m := maps.Clone(*annotations)
	for _, k := range []string{metricsKey, statusesKey, conditionsKey, behaviorKey} {
		delete(m, k)
	}
	if len(m) == 0 && len(*annotations) > 0 {
		m = nil
	}
	*annotations = m
}

func conditionsToV1(list []autoscalingv2.HorizontalPodAutoscalerCondition) (out []autoscalingv1.HorizontalPodAutoscalerCondition) {
	for _, c := range list {
		out = append(out, autoscalingv1.HorizontalPodAutoscalerCondition{Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type),
			Status:             c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration})
	}
	return out
}

func conditionsFromV1(list []autoscalingv1.HorizontalPodAutoscalerCondition) (out []autoscalingv2.HorizontalPodAutoscalerCondition) {
	for _, c := range list {
		out = append(out, autoscalingv2.HorizontalPodAutoscalerCondition{Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type),
			Status:             c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration})
	}
	return out
}

// A behavior is the form of the annotation: upstream writes its internal type there, whose fields have no
// JSON names of their own.
type behavior struct{ ScaleUp, ScaleDown *scalingRules }

type scalingRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []scalingPolicy
	Tolerance                  *apiresource.Quantity
}

type scalingPolicy struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

func behaviorOf(b *autoscalingv2.HorizontalPodAutoscalerBehavior) *behavior {
	return &behavior{rulesOf(b.ScaleUp), rulesOf(b.ScaleDown)}
}

func rulesOf(r *autoscalingv2.HPAScalingRules) *scalingRules {
	if r == nil {
		return nil
	}
	out := &scalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, scalingPolicy(p))
	}
	return out
}

func (b *behavior) hub() *autoscalingv2.HorizontalPodAutoscalerBehavior {
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: b.ScaleUp.hub(), ScaleDown: b.ScaleDown.hub()}
}

func (r *scalingRules) hub() *autoscalingv2.HPAScalingRules {
	if r == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy,
		Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy(p))
	}
	return out
}
