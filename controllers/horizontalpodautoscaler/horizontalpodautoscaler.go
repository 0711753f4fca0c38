// Package horizontalpodautoscaler keeps the size of what it targets within bounds.
//
//	reads   HorizontalPodAutoscaler, the scale of its target
//	writes  the target: scale; HorizontalPodAutoscaler: status
//	rule    the target has at least minReplicas and at most maxReplicas; in between it stays as it is
//
// Unlike Kubernetes, no metric is read yet: within its bounds the target keeps its size.
package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// period is how often a target is looked at whose changes do not wake the loop.
const period = 15 * time.Second

// Controller is the loop: wake on an autoscaler, and on the workloads that it may target.
var Controller = &loop.Controller[*autoscalingv2.HorizontalPodAutoscaler]{
	Name: "horizontal-pod-autoscaler",
	For:  kinds.HorizontalPodAutoscalers,
	Wake: []loop.Wake{{Kind: kinds.Deployments, Keys: targeted}, {Kind: kinds.ReplicaSets, Keys: targeted},
		{Kind: kinds.StatefulSets, Keys: targeted}, {Kind: kinds.ReplicationControllers, Keys: targeted}},
	Writes:    loop.Anything,
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, h *autoscalingv2.HorizontalPodAutoscaler) (time.Duration, error) {
	if h.DeletionTimestamp != nil {
		return 0, nil
	}
	k, target, now, err := scale(c, h) // observe
	todo := plan(h, now, err, c.Now()) // decide
	for _, e := range todo.events {
		c.Event(kinds.HorizontalPodAutoscalers, h, e.typ, e.reason, "%s", e.text)
	}
	var errs []error // act
	if todo.rescale {
		next := resource.Clone(target)
		k.SetScale(next, todo.status.DesiredReplicas)
		if err := c.Update(ctx, k, next); err != nil {
			return 0, fmt.Errorf("scale %s to %d: %w", loop.KeyOf(k, target), todo.status.DesiredReplicas, err)
		}
	}
	if !equality.Semantic.DeepEqual(h.Status, todo.status) {
		next := resource.Clone(h)
		next.Status = todo.status
		errs = append(errs, c.UpdateStatus(ctx, kinds.HorizontalPodAutoscalers, next))
	}
	return period, errors.Join(errs...)
}

// scale reads the target's scale.
func scale(c *loop.Ctx, h *autoscalingv2.HorizontalPodAutoscaler) (resource.Kind, resource.Object, resource.Scale, error) {
	ref := h.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, nil, resource.Scale{}, fmt.Errorf("invalid API version in scale target reference: %w", err)
	}
	k, ok := c.Client().Kinds().GroupKind(schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if !ok {
		return nil, nil, resource.Scale{}, fmt.Errorf("no matches for kind %q in group %q", ref.Kind, gv.Group)
	}
	obj := c.Lookup(k, h.Namespace, ref.Name)
	if obj == nil {
		return nil, nil, resource.Scale{}, fmt.Errorf("%s %q not found", k.Info().GR(), ref.Name)
	}
	s, ok := k.ScaleOf(obj)
	if !ok {
		return nil, nil, resource.Scale{}, fmt.Errorf("%s can't be scaled", k.Info().GR())
	}
	return k, obj, s, nil
}

type event struct{ typ, reason, text string }

// A todo is one pass's difference between wish and world.
type todo struct {
	status  autoscalingv2.HorizontalPodAutoscalerStatus
	rescale bool
	events  []event
}

// plan is pure: same autoscaler, same scale, same answer.
func plan(h *autoscalingv2.HorizontalPodAutoscaler, cur resource.Scale, failed error, now time.Time) (t todo) {
	t.status = *h.Status.DeepCopy()
	set := func(kind autoscalingv2.HorizontalPodAutoscalerConditionType, s corev1.ConditionStatus, reason, text string) {
		t.status.Conditions = condition(t.status.Conditions, kind, s, reason, text, now)
	}
	if failed != nil {
		set(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale", "the HPA controller was unable to get the target's current scale: "+failed.Error())
		t.events = append(t.events, event{corev1.EventTypeWarning, "FailedGetScale", failed.Error()})
		return t
	}
	least := int32(1)
	if h.Spec.MinReplicas != nil {
		least = *h.Spec.MinReplicas
	}
	set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	t.status.CurrentReplicas, t.status.DesiredReplicas = cur.Replicas, cur.Replicas
	why := ""
	switch {
	case cur.Replicas == 0 && least != 0:
		set(autoscalingv2.ScalingActive, corev1.ConditionFalse, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
		t.status.DesiredReplicas = 0
		return t
	case cur.Replicas > h.Spec.MaxReplicas:
		t.status.DesiredReplicas, why = h.Spec.MaxReplicas, "Current number of replicas above Spec.MaxReplicas"
	case cur.Replicas < least:
		t.status.DesiredReplicas, why = least, "Current number of replicas below Spec.MinReplicas"
	default:
		set(autoscalingv2.ScalingActive, corev1.ConditionFalse, "FailedGetResourceMetric", "the HPA was unable to compute the replica count: no metrics are available")
		return t
	}
	t.rescale = true
	t.status.LastScaleTime = &metav1.Time{Time: now}
	set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", t.status.DesiredReplicas))
	t.events = append(t.events, event{corev1.EventTypeNormal, "SuccessfulRescale", fmt.Sprintf("New size: %d; reason: %s", t.status.DesiredReplicas, why)})
	return t
}

func condition(list []autoscalingv2.HorizontalPodAutoscalerCondition, t autoscalingv2.HorizontalPodAutoscalerConditionType, s corev1.ConditionStatus, reason, text string, now time.Time) []autoscalingv2.HorizontalPodAutoscalerCondition {
	c := autoscalingv2.HorizontalPodAutoscalerCondition{Type: t, Status: s, Reason: reason, Message: text, LastTransitionTime: metav1.NewTime(now)}
	at := slices.IndexFunc(list, func(o autoscalingv2.HorizontalPodAutoscalerCondition) bool { return o.Type == t })
	if at < 0 {
		return append(list, c)
	}
	if list[at].Status == s {
		c.LastTransitionTime = list[at].LastTransitionTime
	}
	list[at] = c
	return list
}

// targeted wakes the autoscalers of a workload.
func targeted(c client.Change, read resource.Reader, wake func(ns, name string)) {
	obj := c.Object()
	for o := range read.Each(kinds.HorizontalPodAutoscalers, obj.GetNamespace()) {
		if ref := o.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef; ref.Name == obj.GetName() && ref.Kind == c.Kind.Info().GVK.Kind {
			wake(o.GetNamespace(), o.GetName())
		}
	}
}
