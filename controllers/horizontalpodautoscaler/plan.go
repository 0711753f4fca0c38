package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A sight holds the facts that one pass sees.
type sight struct {
	target  target
	failed  error // the target can't be read
	metrics measured
	now     time.Time
}

type event struct{ typ, reason, text string }

// A todo is one pass's difference between wish and world.
type todo struct {
	status      autoscalingv2.HorizontalPodAutoscalerStatus
	rescale     bool
	why         string
	recommended *int32 // what the metrics call for, to be remembered
	events      []event
	now         time.Time
}

func (t *todo) set(kind autoscalingv2.HorizontalPodAutoscalerConditionType, s corev1.ConditionStatus, reason, text string) {
	c := autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind, Status: s, Reason: reason, Message: text,
		LastTransitionTime: metav1.NewTime(t.now)}
	list := t.status.Conditions
	at := slices.IndexFunc(list, func(o autoscalingv2.HorizontalPodAutoscalerCondition) bool { return o.Type == kind })
	if at < 0 {
		t.status.Conditions = append(list, c)
		return
	}
	if list[at].Status == s {
		c.LastTransitionTime = list[at].LastTransitionTime
	}
	list[at] = c
}

func (t *todo) warn(reason, text string) {
	t.events = append(t.events, event{corev1.EventTypeWarning, reason, text})
}

// plan is pure: same autoscaler, same sight, same past, same answer.
func plan(h hpa, seen sight, past history) (t todo) {
	t = todo{status: *h.Status.DeepCopy(), now: seen.now}
	if generation := h.Generation; generation != 0 {
		t.status.ObservedGeneration = &generation
	}
	if seen.failed != nil {
		t.set(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale",
			"the HPA controller was unable to get the target's current scale: "+seen.failed.Error())
		t.warn("FailedGetScale", seen.failed.Error())
		return t
	}
	current, least := seen.target.scale.Replicas, int32(1)
	if h.Spec.MinReplicas != nil {
		least = *h.Spec.MinReplicas
	}
	t.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededGetScale",
		"the HPA controller was able to get the target's current scale")
	t.status.CurrentReplicas, t.status.CurrentMetrics = current, nil
	switch {
	case current == 0 && least != 0:
		t.status.DesiredReplicas = 0
		t.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, "ScalingDisabled",
			"scaling is disabled since the replica count of the target is zero")
	case current > h.Spec.MaxReplicas:
		t.resize(current, h.Spec.MaxReplicas, "Current number of replicas above Spec.MaxReplicas")
	case current < least:
		t.resize(current, least, "Current number of replicas below Spec.MinReplicas")
	default:
		t.follow(h, seen.metrics, bounds{current, least, h.Spec.MaxReplicas}, past)
	}
	return t
}

// resize has the target scaled if it is not of the size.
func (t *todo) resize(current, n int32, why string) {
	t.status.DesiredReplicas = n
	if n == current {
		return
	}
	t.rescale, t.why = true, why
	t.status.LastScaleTime = &metav1.Time{Time: t.now}
	t.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededRescale",
		fmt.Sprintf("the HPA controller was able to update the target scale to %d", n))
}

// refused takes back that the target was scaled.
func (t *todo) refused(h hpa, err error) {
	t.status.DesiredReplicas, t.status.LastScaleTime = h.Status.DesiredReplicas, h.Status.LastScaleTime
	t.set(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedUpdateScale",
		fmt.Sprintf("the HPA controller was unable to update the target scale: %v", err))
}

// follow goes where the metrics lead, within bounds and as fast as allowed.
func (t *todo) follow(h hpa, m measured, b bounds, past history) {
	t.status.CurrentMetrics = m.statuses
	for _, f := range m.faults {
		t.warn(f.reason, f.text)
	}
	switch {
	case m.target != nil:
		t.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, m.target.reason, m.target.text)
		if errors.Is(m.err, errNoSelector) {
			t.warn("SelectorRequired", m.err.Error())
		} else {
			t.warn(m.target.reason, m.target.text)
		}
		t.warn("FailedComputeMetricsReplicas", m.err.Error())
		return
	case m.err != nil:
		t.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, m.reason, "the HPA was unable to compute the replica count: "+m.partly.Error())
		t.warn("FailedComputeMetricsReplicas", m.err.Error())
		return
	}
	t.set(autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound",
		"the HPA was able to successfully calculate a replica count from "+m.metric)
	t.recommended = &m.replicas
	why := m.metric + " above target"
	if m.replicas < b.current {
		why = "All metrics below target"
	}
	calm := steady(h.Spec.Behavior, b.current, m.replicas, past.advice, t.now)
	if calm.n == m.replicas {
		t.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "ReadyForNewScale", "recommended size matches current size")
	} else {
		t.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, calm.reason, calm.text)
	}
	end := limit(h.Spec.Behavior, b, calm.n, past.scales, t.now)
	limited := corev1.ConditionFalse
	if end.n != calm.n {
		limited = corev1.ConditionTrue
	}
	t.set(autoscalingv2.ScalingLimited, limited, end.reason, end.text)
	t.resize(b.current, end.n, why)
}
