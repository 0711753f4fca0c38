package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/features"
)

// A sight holds the facts that one pass sees.
type sight struct {
	target  target
	failed  error // the target can't be read
	metrics measured
	off     bool // see off
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
	if seen.failed != nil {
		t.set(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale",
			"the HPA controller was unable to get the target's current scale: "+seen.failed.Error())
		t.warn("FailedGetScale", seen.failed.Error())
		return t // a generation whose target was not found has not been observed
	}
	if generation := h.Generation; generation != 0 {
		t.status.ObservedGeneration = &generation
	}
	current, least := seen.target.scale.Replicas, smallest(h)
	t.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededGetScale",
		"the HPA controller was able to get the target's current scale")
	t.status.CurrentReplicas, t.status.CurrentMetrics = current, nil
	switch {
	case seen.off:
		t.status.DesiredReplicas = 0
		t.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, "ScalingDisabled",
			"scaling is disabled since the replica count of the target is zero")
	case current > h.Spec.MaxReplicas:
		t.resize(current, h.Spec.MaxReplicas, "Current number of replicas above Spec.MaxReplicas")
	case current < least && current > 0:
		t.resize(current, least, "Current number of replicas below Spec.MinReplicas")
	default:
		t.follow(h, seen.metrics, bounds{current, least, h.Spec.MaxReplicas}, past)
	}
	return t
}

// smallest is the least size that the target may have.
func smallest(h hpa) int32 {
	if h.Spec.MinReplicas == nil {
		return 1
	}
	return *h.Spec.MinReplicas
}

// off says that somebody took all pods of a target away: only they bring it back, and nothing is measured. What the autoscaler itself
// scaled to zero it brings back, when metrics that need no pods call for it, or when it may no longer be so small.
func off(h hpa, on *features.Set, current int32) bool {
	return current == 0 && (!on.On("HPAScaleToZero") || !scaledToZero(h) || smallest(h) == 0 && !needsNoPods(h))
}

func scaledToZero(h hpa) bool {
	return slices.ContainsFunc(h.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == autoscalingv2.ScaledToZero && c.Status == corev1.ConditionTrue
	})
}

// needsNoPods says that there is a metric that tells of a load without pods that carry it.
func needsNoPods(h hpa) bool {
	return slices.ContainsFunc(h.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	})
}

// zeroed notes, when a target has been scaled, whether it was to zero.
func (t *todo) zeroed(h hpa, from int32) {
	if from > 0 && t.status.DesiredReplicas == 0 && smallest(h) == 0 && needsNoPods(h) {
		t.set(autoscalingv2.ScaledToZero, corev1.ConditionTrue, "ScaledToZero", "the HPA controller scaled the workload to zero")
		return
	}
	t.set(autoscalingv2.ScaledToZero, corev1.ConditionFalse, "NotScaledToZero", "the HPA controller did not scale the workload to zero")
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
	switch {
	case m.replicas < b.current:
		why = "All metrics below target"
	case m.replicas == 0: // and yet there are to be some
		why = "Current number of replicas below Spec.MinReplicas"
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
