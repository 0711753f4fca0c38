// Package horizontalpodautoscaler keeps as many pods as the load on them calls for.
//
//	reads   HorizontalPodAutoscaler, its target's Pods, metrics; the target's scale: Deployment, ReplicaSet, StatefulSet,
//	        ReplicationController, others by their scale
//	writes  the target: scale; HorizontalPodAutoscaler: status
//	rule    the largest number of pods that any metric calls for, within bounds, as fast as the behavior allows
//
// Of a target it remembers its recommendations and how it scaled within the behavior's windows. After a
// restart it goes on from the size that it finds, so that nothing shrinks for a window's time. Of a target that it scaled to zero the
// condition ScaledToZero keeps that it may bring it back (KEP-2021).
package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

type hpa = *autoscalingv2.HorizontalPodAutoscaler

// DefaultPeriod is the interval between looks at metrics.
const DefaultPeriod = 15 * time.Second

// Controller returns the loop: wake on an autoscaler, on the workloads that it may target, and every period (0: the
// default). Metrics come from source; nil: there are none.
func Controller(source Source, period time.Duration) *loop.Controller[hpa] {
	if period == 0 {
		period = DefaultPeriod
	}
	if source == nil {
		source = nowhere{}
	}
	a := &autoscaler{source: source, period: period, memory: newMemory()}
	return &loop.Controller[hpa]{
		Name: "horizontal-pod-autoscaler",
		For:  kinds.HorizontalPodAutoscalers,
		Wake: []loop.Wake{{Kind: kinds.Deployments, Keys: targeted}, {Kind: kinds.ReplicaSets, Keys: targeted},
			{Kind: kinds.StatefulSets, Keys: targeted}, {Kind: kinds.ReplicationControllers, Keys: targeted}},
		Writes:    loop.Anything,
		Workers:   8,
		Rest:      time.Second,
		Reconcile: a.reconcile,
		Gone: func(_ context.Context, _ *loop.Ctx, key loop.Key) (time.Duration, error) {
			a.memory.forget(key)
			return 0, nil
		},
	}
}

type autoscaler struct {
	source Source
	period time.Duration
	memory *memory
}

func (a *autoscaler) reconcile(ctx context.Context, c *loop.Ctx, h hpa) (time.Duration, error) {
	if h.DeletionTimestamp != nil {
		return 0, nil
	}
	key := loop.KeyOf(kinds.HorizontalPodAutoscalers, h)
	t, err := findTarget(c, h) // observe
	on := c.Client().Kinds().Features()
	seen := sight{target: t, failed: err, now: c.Now(), off: err == nil && off(h, on, t.scale.Replicas)}
	if err == nil && !seen.off {
		seen.metrics = a.measure(ctx, c, h, t)
	}
	var past history
	if err == nil { // else it is not known which size it begins with
		past = a.memory.past(key, t.scale.Replicas, seen.now)
	}
	todo := plan(h, seen, past)     // decide
	for _, e := range todo.events { // act
		c.Event(kinds.HorizontalPodAutoscalers, h, e.typ, e.reason, "%s", e.text)
	}
	a.memory.recommended(key, todo.recommended, windows(h.Spec.Behavior), seen.now)
	if todo.rescale {
		n := todo.status.DesiredReplicas
		err := c.UpdateScale(ctx, t.kind, t.resized(n))
		if apierrors.IsConflict(err) {
			return 0, err // the target has changed: from the start
		}
		if err != nil {
			c.Event(kinds.HorizontalPodAutoscalers, h, corev1.EventTypeWarning, "FailedRescale", "New size: %d; reason: %s; error: %v", n,
				todo.why, err)
			todo.refused(h, err)
			return 0, errors.Join(fmt.Errorf("scale %s to %d: %w", loop.KeyOf(t.kind, t.object), n, err), writeStatus(ctx, c, h, todo))
		}
		c.Event(kinds.HorizontalPodAutoscalers, h, corev1.EventTypeNormal, "SuccessfulRescale", "New size: %d; reason: %s", n, todo.why)
		a.memory.scaled(key, n-t.scale.Replicas, seen.now)
		if on.On("HPAScaleToZero") {
			todo.zeroed(h, t.scale.Replicas)
		}
	}
	return a.period, writeStatus(ctx, c, h, todo)
}

func writeStatus(ctx context.Context, c *loop.Ctx, h hpa, t todo) error {
	if equality.Semantic.DeepEqual(h.Status, t.status) {
		return nil
	}
	next := resource.Clone(h)
	next.Status = t.status
	err := c.UpdateStatus(ctx, kinds.HorizontalPodAutoscalers, next)
	if err != nil && !apierrors.IsConflict(err) {
		c.Event(kinds.HorizontalPodAutoscalers, h, corev1.EventTypeWarning, "FailedUpdateStatus", "%v", err)
	}
	return err
}

// A target is the object that an autoscaler scales.
type target struct {
	kind   resource.Kind
	object resource.Object
	scale  resource.Scale
}

// resized is the target's scale with n replicas.
func (t target) resized(n int32) *autoscalingv1.Scale {
	return &autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{Namespace: t.object.GetNamespace(), Name: t.object.GetName(), UID: t.object.GetUID(),
			ResourceVersion: t.object.GetResourceVersion()}, Spec: autoscalingv1.ScaleSpec{Replicas: n}}
}

// findTarget reads the target and its scale.
func findTarget(c *loop.Ctx, h hpa) (t target, err error) {
	ref := h.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return t, err
	}
	k, ok := c.Client().Kinds().GroupKind(schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if !ok {
		return t, fmt.Errorf("no matches for kind %q in group %q", ref.Kind, gv.Group)
	}
	if !slices.ContainsFunc(k.Info().Subs, func(sub resource.SubInfo) bool { return sub.Name == "scale" }) {
		return t, errUnserved
	}
	obj := c.Lookup(k, h.Namespace, ref.Name)
	if obj == nil {
		return t, fmt.Errorf("%s %q not found", k.Info().GR(), ref.Name)
	}
	s, ok := resource.ScaleOf(k, obj)
	if !ok {
		return t, errUnserved
	}
	return target{k, obj, s}, nil
}

// targeted wakes the autoscalers of a workload.
func targeted(c client.Change, read resource.Reader, wake func(ns, name string)) {
	obj := c.Object()
	for o := range read.Each(kinds.HorizontalPodAutoscalers, obj.GetNamespace()) {
		if ref := o.(hpa).Spec.ScaleTargetRef; ref.Name == obj.GetName() && ref.Kind == c.Kind.Info().GVK.Kind {
			wake(o.GetNamespace(), o.GetName())
		}
	}
}

var errNoSelector = errors.New("selector is required")

// podsOf are the pods that the target's selector picks.
func podsOf(read resource.Reader, ns, selector string) ([]*corev1.Pod, labels.Selector, error) {
	if selector == "" {
		return nil, nil, errNoSelector
	}
	sel, err := labels.Parse(selector)
	if err != nil {
		return nil, nil, fmt.Errorf("couldn't convert selector into a corresponding internal selector object: %w", err)
	}
	var list []*corev1.Pod
	for _, p := range resource.List(read, kinds.Pods, ns) {
		if sel.Matches(labels.Set(p.Labels)) {
			list = append(list, p)
		}
	}
	return list, sel, nil
}

// rivals are the autoscalers that would scale some of the same pods.
func rivals(c *loop.Ctx, h hpa, pods []*corev1.Pod) (names []string) {
	for _, other := range resource.List(c, kinds.HorizontalPodAutoscalers, h.Namespace) {
		if other.Name == h.Name {
			continue
		}
		t, err := findTarget(c, other)
		if err != nil {
			continue
		}
		sel, err := labels.Parse(t.scale.Selector)
		if err != nil || t.scale.Selector == "" {
			continue
		}
		for _, p := range pods {
			if sel.Matches(labels.Set(p.Labels)) {
				names = append(names, other.Namespace+"/"+other.Name)
				break
			}
		}
	}
	return names
}
