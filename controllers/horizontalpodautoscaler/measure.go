package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/loop"
)

// A measured is the proposal of all metrics together.
type measured struct {
	replicas int32
	metric   string // the one that called for the most
	statuses []autoscalingv2.MetricStatus
	reason   string // of the failure
	err      error  // none can be had, or one that might have called for more
	partly   error  // of the first metric that can't be had
	value    string // what that metric asks for
	faults   []fault
	target   *fault // the target can't be measured at all
}

// A fault is a condition's reason and text.
type fault struct{ reason, text string }

// A question is one metric to be answered.
type question struct {
	a    *autoscaler
	c    *loop.Ctx
	h    hpa
	t    target
	pods []*corev1.Pod
	sel  labels.Selector
	band band
}

// An answer is the proposal of one metric.
type answer struct {
	replicas int32
	text     string
	status   autoscalingv2.MetricStatus
}

// measure asks for all metrics. The largest answer counts. If one can't be had, the others may not make the target
// smaller: the one might have called for more.
func (a *autoscaler) measure(ctx context.Context, c *loop.Ctx, h hpa, t target) (m measured) {
	q := question{a: a, c: c, h: h, t: t, band: tolerance(h)}
	var err error
	if q.pods, q.sel, err = podsOf(c, h.Namespace, t.scale.Selector); err != nil {
		m.target, m.err = &fault{"InvalidSelector", err.Error()}, err
		if t.scale.Selector == "" {
			m.target.text = "the HPA target's scale is missing a selector"
		}
		return m
	}
	if names := rivals(c, h, q.pods); len(names) > 0 {
		names, words := append([]string{h.Namespace + "/" + h.Name}, names...), "more than one HPA (e.g. [%s])"
		if c.Client().Kinds().Features().AtLeast(37) {
			names = names[:2]
		} else {
			words = "multiple HPAs: [%s]"
		}
		text := fmt.Sprintf("pods by selector %s are controlled by "+words, t.scale.Selector, strings.Join(names, " "))
		m.target, m.err = &fault{"AmbiguousSelector", text}, errors.New(text)
		return m
	}
	failures := 0
	for _, spec := range h.Spec.Metrics {
		got, reason, err := q.ask(ctx, spec)
		if err != nil {
			failures++
			if m.partly == nil {
				m.partly, m.reason, m.value = err, reason, asked(spec)
			}
			m.faults = append(m.faults, fault{reason, err.Error()})
			m.statuses = append(m.statuses, autoscalingv2.MetricStatus{}) // each metric has its place
			continue
		}
		if m.replicas == 0 || got.replicas > m.replicas {
			m.replicas, m.metric = got.replicas, got.text
		}
		m.statuses = append(m.statuses, got.status)
	}
	if failures > 0 && (failures == len(h.Spec.Metrics) || m.replicas < t.scale.Replicas) {
		m.err = fmt.Errorf("invalid metrics (%d invalid out of %d), first error is: failed to get %s: %w",
			failures, len(h.Spec.Metrics), m.value, m.partly)
	}
	return m
}

// valueOf names what one metric asks for.
func valueOf(s autoscalingv2.MetricSpec) string {
	switch {
	case s.Resource != nil:
		return string(s.Resource.Name) + " resource metric value"
	case s.ContainerResource != nil:
		return s.ContainerResource.Container + " container metric value"
	case s.Pods != nil:
		return "pods metric value"
	case s.External != nil:
		return s.External.Metric.Name + " external metric value"
	}
	return "object metric value"
}

// asked is valueOf with what upstream's words for some metrics' failures name beside.
func asked(s autoscalingv2.MetricSpec) string {
	switch {
	case s.External != nil && s.External.Target.AverageValue != nil:
		return valueOf(s) + ": failed to get " + s.External.Metric.Name + " external metric"
	case s.External != nil:
		return valueOf(s) + ": failed to get external metric " + s.External.Metric.Name
	case s.Object != nil && s.Object.Target.AverageValue != nil:
		return valueOf(s) + ": failed to get " + s.Object.Metric.Name + " object metric"
	}
	return valueOf(s)
}

var errNobody = errors.New("no pods returned by selector while calculating replica count")

// tolerance is the distance from its target that a metric may have without effect.
func tolerance(h hpa) band {
	b := band{tolerated, tolerated}
	of := func(r *autoscalingv2.HPAScalingRules, def float64) float64 {
		if r == nil || r.Tolerance == nil {
			return def
		}
		return r.Tolerance.AsApproximateFloat64()
	}
	if s := h.Spec.Behavior; s != nil {
		b = band{of(s.ScaleDown, b.down), of(s.ScaleUp, b.up)}
	}
	return b
}

// ask answers one metric; reason is the condition's when it can't.
func (q question) ask(ctx context.Context, s autoscalingv2.MetricSpec) (got answer, reason string, err error) {
	got.status.Type = s.Type
	switch {
	case s.Resource != nil:
		got.status.Resource = &autoscalingv2.ResourceMetricStatus{Name: s.Resource.Name}
		reason = "FailedGetResourceMetric"
		err = q.resource(ctx, s.Resource.Name, "", s.Resource.Target, &got.status.Resource.Current, &got)
	case s.ContainerResource != nil:
		r := s.ContainerResource
		got.status.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{Name: r.Name, Container: r.Container}
		reason = "FailedGetContainerResourceMetric"
		err = q.resource(ctx, r.Name, r.Container, r.Target, &got.status.ContainerResource.Current, &got)
	case s.Pods != nil:
		got.status.Pods, reason = &autoscalingv2.PodsMetricStatus{Metric: s.Pods.Metric}, "FailedGetPodsMetric"
		if err = chosen(s.Pods.Metric); err == nil {
			err = q.custom(ctx, s.Pods, &got)
		}
	case s.Object != nil:
		got.status.Object = &autoscalingv2.ObjectMetricStatus{DescribedObject: s.Object.DescribedObject, Metric: s.Object.Metric}
		if reason, err = "FailedGetObjectMetric", chosen(s.Object.Metric); err == nil {
			err = q.object(ctx, s.Object, &got)
		}
	case s.External != nil:
		got.status.External, reason = &autoscalingv2.ExternalMetricStatus{Metric: s.External.Metric}, "FailedGetExternalMetric"
		if err = chosen(s.External.Metric); err == nil {
			err = q.external(ctx, s.External, &got)
		}
	default:
		reason, err = "InvalidMetricSourceType", fmt.Errorf("unknown metric source type %q", s.Type)
	}
	return got, reason, err
}

// chosen says whether a metric's selector can be one: the API takes any.
func chosen(m autoscalingv2.MetricIdentifier) error {
	_, err := metav1.LabelSelectorAsSelector(m.Selector)
	return err
}

// resource answers for CPU or memory.
func (q question) resource(ctx context.Context, name corev1.ResourceName, container string, want autoscalingv2.MetricTarget,
	now *autoscalingv2.MetricValueStatus, got *answer) error {
	title, kind := string(name), "utilization"
	if want.AverageUtilization == nil {
		kind = "usage"
	}
	fail := func(err error) error { return fmt.Errorf("failed to get %s %s: %w", name, kind, err) }
	values, err := q.a.source.Resource(ctx, name, q.h.Namespace, q.sel, container)
	if err != nil {
		return fail(fmt.Errorf("unable to get metrics for resource %s: %w", name, err))
	}
	if len(q.pods) == 0 {
		return fail(errNobody)
	}
	s := sortOut(q.pods, values, name == corev1.ResourceCPU, q.c.Now())
	format := apiresource.DecimalSI
	if name == corev1.ResourceMemory {
		format = apiresource.BinarySI
	}
	if want.AverageUtilization == nil {
		got.text = title + " resource"
		if err := q.plain(s, want, now, got); err != nil {
			return fail(err)
		}
		now.AverageValue.Format = format
		return nil
	}
	if container != "" {
		title += " container"
	}
	if len(s.values) == 0 {
		return fail(errNoPods)
	}
	if s.requests, err = requested(q.pods, container, name); err != nil {
		return fail(err)
	}
	goal := int64(*want.AverageUtilization)
	if percent, mean, err := utilization(s); err == nil {
		p := int32(percent)
		now.AverageUtilization, now.AverageValue = &p, apiresource.NewMilliQuantity(mean, format)
	}
	got.text = title + " resource utilization (percentage of request)"
	got.replicas, err = wanted(s, q.t.scale.Replicas, q.band,
		func(s sample) (float64, error) {
			percent, _, err := utilization(s)
			return float64(percent) / float64(goal), err
		},
		func(pod string, _ bool) int64 { return s.requests[pod] * max(unitOfTarget, goal) / unitOfTarget })
	if err != nil {
		return fail(err)
	}
	return nil
}

// plain answers for a mean over pods that has a value as its target.
func (q question) plain(s sample, want autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus, got *answer) (err error) {
	if want.AverageValue == nil {
		return errors.New("the target has neither a utilization nor an average value")
	}
	goal := want.AverageValue.MilliValue()
	now.AverageValue = apiresource.NewMilliQuantity(average(s), apiresource.DecimalSI)
	got.replicas, err = wanted(s, q.t.scale.Replicas, q.band,
		func(s sample) (float64, error) { return float64(average(s)) / float64(goal), nil },
		func(string, bool) int64 { return goal })
	return err
}

// custom answers for a metric that each pod has.
func (q question) custom(ctx context.Context, m *autoscalingv2.PodsMetricSource, got *answer) error {
	values, err := q.a.source.Pods(ctx, m.Metric, q.h.Namespace, q.sel)
	if err != nil {
		return fmt.Errorf("unable to get metric %s: %w", m.Metric.Name, err)
	}
	if len(q.pods) == 0 {
		return errNobody
	}
	got.text = "pods metric " + m.Metric.Name
	return q.plain(sortOut(q.pods, values, false, q.c.Now()), m.Target, &got.status.Pods.Current, got)
}

// object answers for a metric of one object.
func (q question) object(ctx context.Context, m *autoscalingv2.ObjectMetricSource, got *answer) error {
	gv, err := schema.ParseGroupVersion(m.DescribedObject.APIVersion)
	if err != nil {
		return err
	}
	resource := strings.ToLower(m.DescribedObject.Kind) + "s" // as upstream's REST mapper guesses for kinds that it doesn't know
	if k, ok := q.c.Client().Kinds().GroupKind(schema.GroupKind{Group: gv.Group, Kind: m.DescribedObject.Kind}); ok {
		resource = k.Info().GR().String()
	}
	name := m.DescribedObject.Name
	if resource == "namespaces" {
		name = q.h.Namespace // whichever is named: an autoscaler reads nothing of another
	}
	value, err := q.a.source.Object(ctx, m.Metric, q.h.Namespace, resource, name)
	if err != nil {
		of := m.DescribedObject
		if !q.c.Client().Kinds().Features().AtLeast(37) {
			return fmt.Errorf("unable to get metric %s: %s on %s %s/%w", m.Metric.Name, of.Kind, q.h.Namespace, of.Name, err) // as 1.36 has it
		}
		return fmt.Errorf("unable to get metric %s on %s %s/%s: %w", m.Metric.Name, of.Kind, q.h.Namespace, of.Name, err)
	}
	want := m.Target
	got.text = m.DescribedObject.Kind + " metric " + m.Metric.Name
	if want.Type == autoscalingv2.ValueMetricType { // it may have both
		want.AverageValue = nil
	} else {
		got.text = externally(m.Metric)
	}
	return q.total(value, want, &got.status.Object.Current, got)
}

// external answers for a metric of nothing in the cluster.
func (q question) external(ctx context.Context, m *autoscalingv2.ExternalMetricSource, got *answer) error {
	value, err := q.a.source.External(ctx, m.Metric, q.h.Namespace)
	if err != nil {
		return fmt.Errorf("unable to get external metric %s/%s/%+v: %w", q.h.Namespace, m.Metric.Name, m.Metric.Selector, err)
	}
	got.text = externally(m.Metric)
	return q.total(value, m.Target, &got.status.External.Current, got)
}

func externally(m autoscalingv2.MetricIdentifier) string {
	return fmt.Sprintf("external metric %s(%+v)", m.Name, m.Selector)
}

// total answers for one value for all pods: shared among them, or a goal for their sum.
func (q question) total(value int64, want autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus, got *answer) error {
	current := q.t.scale.Replicas
	switch {
	case want.AverageValue != nil:
		goal, pods := float64(want.AverageValue.MilliValue()), q.t.scale.Current
		got.replicas = pods
		// Without pods nothing is near enough.
		if ratio := float64(value) / goal; pods == 0 || !q.band.holds(ratio/float64(pods)) {
			got.replicas = ceil(ratio)
		}
		now.AverageValue = apiresource.NewMilliQuantity(ceilDiv(value, int64(max(pods, 1))), apiresource.DecimalSI)
	case want.Value != nil:
		ratio := float64(value) / float64(want.Value.MilliValue())
		switch {
		case current == 0:
			got.replicas = ceil(ratio)
		case q.band.holds(ratio):
			got.replicas = current
		case len(q.pods) == 0:
			return fmt.Errorf("unable to calculate ready pods: %w", errNobody)
		default:
			got.replicas = ceil(ratio * float64(readyOf(q.pods)))
		}
		now.Value = apiresource.NewMilliQuantity(value, apiresource.DecimalSI)
	default:
		return errors.New("the target has neither a value nor an average value")
	}
	return nil
}

func ceilDiv(a, b int64) int64 {
	if a%b > 0 {
		return a/b + 1
	}
	return a / b
}
