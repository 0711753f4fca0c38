package autoscaling

import (
	v1 "k8s.io/api/autoscaling/v1"
	v2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// metricToV1 converts a metric to the form that v1 has for it in annotations.
func metricToV1(m v2.MetricSpec) v1.MetricSpec {
	out := v1.MetricSpec{Type: v1.MetricSourceType(m.Type)}
	if o := m.Object; o != nil {
		out.Object = &v1.ObjectMetricSource{Target: v1.CrossVersionObjectReference(o.DescribedObject), MetricName: o.Metric.Name,
			TargetValue: orZero(o.Target.Value), Selector: o.Metric.Selector, AverageValue: o.Target.AverageValue}
	}
	if p := m.Pods; p != nil {
		out.Pods = &v1.PodsMetricSource{MetricName: p.Metric.Name, TargetAverageValue: orZero(p.Target.AverageValue),
			Selector: p.Metric.Selector}
	}
	if r := m.Resource; r != nil {
		out.Resource = &v1.ResourceMetricSource{Name: r.Name, TargetAverageUtilization: r.Target.AverageUtilization,
			TargetAverageValue: r.Target.AverageValue}
	}
	if c := m.ContainerResource; c != nil {
		out.ContainerResource = &v1.ContainerResourceMetricSource{Name: c.Name, Container: c.Container,
			TargetAverageUtilization: c.Target.AverageUtilization, TargetAverageValue: c.Target.AverageValue}
	}
	if e := m.External; e != nil {
		out.External = &v1.ExternalMetricSource{MetricName: e.Metric.Name, MetricSelector: e.Metric.Selector,
			TargetValue: e.Target.Value, TargetAverageValue: e.Target.AverageValue}
	}
	return out
}

func metricFromV1(m v1.MetricSpec) v2.MetricSpec {
	out := v2.MetricSpec{Type: v2.MetricSourceType(m.Type)}
	if o := m.Object; o != nil {
		out.Object = &v2.ObjectMetricSource{DescribedObject: v2.CrossVersionObjectReference(o.Target),
			Metric: v2.MetricIdentifier{Name: o.MetricName, Selector: o.Selector}, Target: target(unlessZero(&o.TargetValue), o.AverageValue, nil)}
	}
	if p := m.Pods; p != nil {
		out.Pods = &v2.PodsMetricSource{Metric: v2.MetricIdentifier{Name: p.MetricName, Selector: p.Selector},
			Target: target(nil, &p.TargetAverageValue, nil)}
	}
	if r := m.Resource; r != nil {
		out.Resource = &v2.ResourceMetricSource{Name: r.Name, Target: target(nil, r.TargetAverageValue, r.TargetAverageUtilization)}
	}
	if c := m.ContainerResource; c != nil {
		out.ContainerResource = &v2.ContainerResourceMetricSource{Name: c.Name, Container: c.Container,
			Target: target(nil, c.TargetAverageValue, c.TargetAverageUtilization)}
	}
	if e := m.External; e != nil {
		out.External = &v2.ExternalMetricSource{Metric: v2.MetricIdentifier{Name: e.MetricName, Selector: e.MetricSelector},
			Target: target(e.TargetValue, e.TargetAverageValue, nil)}
	}
	return out
}

// target says by which value a metric is compared: an average before a value, a utilization before both.
func target(value, average *resource.Quantity, utilization *int32) v2.MetricTarget {
	t := v2.MetricTarget{Type: v2.ValueMetricType, Value: value, AverageValue: average, AverageUtilization: utilization}
	switch {
	case utilization != nil:
		t.Type = v2.UtilizationMetricType
	case average != nil:
		t.Type = v2.AverageValueMetricType
	}
	return t
}

func statusToV1(m v2.MetricStatus) v1.MetricStatus {
	out := v1.MetricStatus{Type: v1.MetricSourceType(m.Type)}
	if o := m.Object; o != nil {
		out.Object = &v1.ObjectMetricStatus{Target: v1.CrossVersionObjectReference(o.DescribedObject), MetricName: o.Metric.Name,
			CurrentValue: orZero(o.Current.Value), Selector: o.Metric.Selector, AverageValue: o.Current.AverageValue}
	}
	if p := m.Pods; p != nil {
		out.Pods = &v1.PodsMetricStatus{MetricName: p.Metric.Name, CurrentAverageValue: orZero(p.Current.AverageValue),
			Selector: p.Metric.Selector}
	}
	if r := m.Resource; r != nil {
		out.Resource = &v1.ResourceMetricStatus{Name: r.Name, CurrentAverageUtilization: r.Current.AverageUtilization,
			CurrentAverageValue: orZero(r.Current.AverageValue)}
	}
	if c := m.ContainerResource; c != nil {
		out.ContainerResource = &v1.ContainerResourceMetricStatus{Name: c.Name, Container: c.Container,
			CurrentAverageUtilization: c.Current.AverageUtilization, CurrentAverageValue: orZero(c.Current.AverageValue)}
	}
	if e := m.External; e != nil {
		out.External = &v1.ExternalMetricStatus{MetricName: e.Metric.Name, MetricSelector: e.Metric.Selector,
			CurrentValue: orZero(e.Current.Value), CurrentAverageValue: e.Current.AverageValue}
	}
	return out
}

func statusFromV1(m v1.MetricStatus) v2.MetricStatus {
	out := v2.MetricStatus{Type: v2.MetricSourceType(m.Type)}
	if o := m.Object; o != nil {
		out.Object = &v2.ObjectMetricStatus{DescribedObject: v2.CrossVersionObjectReference(o.Target),
			Metric:  v2.MetricIdentifier{Name: o.MetricName, Selector: o.Selector},
			Current: v2.MetricValueStatus{Value: unlessZero(&o.CurrentValue), AverageValue: o.AverageValue}}
	}
	if p := m.Pods; p != nil {
		out.Pods = &v2.PodsMetricStatus{Metric: v2.MetricIdentifier{Name: p.MetricName, Selector: p.Selector},
			Current: v2.MetricValueStatus{AverageValue: &p.CurrentAverageValue}}
	}
	if r := m.Resource; r != nil {
		out.Resource = &v2.ResourceMetricStatus{Name: r.Name, Current: v2.MetricValueStatus{
			AverageUtilization: r.CurrentAverageUtilization, AverageValue: unlessZero(&r.CurrentAverageValue)}}
	}
	if c := m.ContainerResource; c != nil {
		out.ContainerResource = &v2.ContainerResourceMetricStatus{Name: c.Name, Container: c.Container,
			Current: v2.MetricValueStatus{AverageUtilization: c.CurrentAverageUtilization, AverageValue: unlessZero(&c.CurrentAverageValue)}}
	}
	if e := m.External; e != nil {
		out.External = &v2.ExternalMetricStatus{Metric: v2.MetricIdentifier{Name: e.MetricName, Selector: e.MetricSelector},
			Current: v2.MetricValueStatus{Value: unlessZero(&e.CurrentValue), AverageValue: e.CurrentAverageValue}}
	}
	return out
}

func orZero(q *resource.Quantity) resource.Quantity {
	if q == nil {
		return resource.Quantity{}
	}
	return *q
}

func unlessZero(q *resource.Quantity) *resource.Quantity {
	if q.IsZero() {
		return nil
	}
	return q
}
