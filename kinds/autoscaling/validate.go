package autoscaling

import (
	"cmp"

	v2 "k8s.io/api/autoscaling/v2"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// The limits of scaling rules, in seconds.
const (
	maxStabilization = 3600
	maxPeriod        = 1800
)

func validateAutoscaler(on *features.Set, h, old hpa) (errs field.ErrorList) {
	s, spec := &h.Spec, field.NewPath("spec")
	least := int32(1)
	if on.On("HPAScaleToZero") {
		least = 0
	}
	errs = append(errs, rule.AtLeastPtr(s.MinReplicas, least, spec.Child("minReplicas"))...)
	most := spec.Child("maxReplicas")
	switch {
	case s.MaxReplicas == 0:
		errs = append(errs, field.Required(most, "must be greater than 0"))
	case s.MaxReplicas < 0:
		errs = append(errs, field.Invalid(most, s.MaxReplicas, "must be greater than 0"))
	}
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		errs = append(errs, field.Invalid(most, s.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, reference(s.ScaleTargetRef, spec.Child("scaleTargetRef"))...)
	if old == nil || old.Spec.ScaleTargetRef != s.ScaleTargetRef {
		errs = append(errs, targetVersion(s.ScaleTargetRef, spec.Child("scaleTargetRef", "apiVersion"))...)
	}
	errs = append(errs, validateMetrics(s, spec.Child("metrics"))...)
	if b := s.Behavior; b != nil {
		errs = append(errs, scaling(b.ScaleUp, spec.Child("behavior", "scaleUp"))...)
		errs = append(errs, scaling(b.ScaleDown, spec.Child("behavior", "scaleDown"))...)
	}
	return errs
}

func validateAutoscalerStatus(h, _ hpa) field.ErrorList {
	status := field.NewPath("status")
	return append(rule.AtLeast(h.Status.CurrentReplicas, 0, status.Child("currentReplicas")),
		rule.AtLeast(h.Status.DesiredReplicas, 0, status.Child("desiredReplicas"))...)
}

func reference(r v2.CrossVersionObjectReference, at *field.Path) field.ErrorList {
	errs := rule.NeededFormat(r.Kind, at.Child("kind"), path.IsValidPathSegmentName)
	return append(errs, rule.NeededFormat(r.Name, at.Child("name"), path.IsValidPathSegmentName)...)
}

// targetVersion refuses targets in the core group, where only the replication controller scales.
func targetVersion(r v2.CrossVersionObjectReference, at *field.Path) field.ErrorList {
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, r.APIVersion, err.Error())}
	case gv.Group == "" && r.Kind != "ReplicationController":
		return field.ErrorList{field.Invalid(at, r.APIVersion, "apiVersion must specify API group")}
	}
	return nil
}

func validateMetrics(s *v2.HorizontalPodAutoscalerSpec, at *field.Path) (errs field.ErrorList) {
	wakes := false // from zero
	for i, m := range s.Metrics {
		wakes = wakes || m.Type == v2.ObjectMetricSourceType || m.Type == v2.ExternalMetricSourceType
		errs = append(errs, metricSpec(m, at.Index(i))...)
	}
	if s.MinReplicas != nil && *s.MinReplicas == 0 && !wakes {
		errs = append(errs, field.Forbidden(at, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

// metricSpec checks that the source which the type names is there, and checks the first source there is.
func metricSpec(m v2.MetricSpec, at *field.Path) (errs field.ErrorList) {
	sources := []struct {
		typ   v2.MetricSourceType
		name  string
		set   bool
		check func(*field.Path) field.ErrorList
	}{
		{v2.ObjectMetricSourceType, "object", m.Object != nil, func(p *field.Path) field.ErrorList { return objectSource(m.Object, p) }},
		{v2.ExternalMetricSourceType, "external", m.External != nil, func(p *field.Path) field.ErrorList { return externalSource(m.External, p) }},
		{v2.PodsMetricSourceType, "pods", m.Pods != nil, func(p *field.Path) field.ErrorList { return podsSource(m.Pods, p) }},
		{v2.ResourceMetricSourceType, "resource", m.Resource != nil, func(p *field.Path) field.ErrorList {
			return resourceSource(string(m.Resource.Name), m.Resource.Target, p)
		}},
		{v2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func(p *field.Path) field.ErrorList {
			return containerSource(m.ContainerResource, p)
		}},
	}
	types := []v2.MetricSourceType{v2.ObjectMetricSourceType, v2.PodsMetricSourceType, v2.ResourceMetricSourceType,
		v2.ContainerResourceMetricSourceType, v2.ExternalMetricSourceType}
	errs = append(errs, rule.Chosen(m.Type, at.Child("type"), types...)...)
	set, known := 0, false
	for _, s := range sources {
		if s.set {
			if set++; set == 1 {
				errs = append(errs, s.check(at.Child(s.name))...)
			}
		}
		if s.typ == m.Type {
			if known = true; !s.set {
				errs = append(errs, field.Required(at.Child(s.name), "must populate information for the given metric source"))
			}
		}
	}
	if !known {
		errs = append(errs, field.NotSupported(at.Child("type"), m.Type, types))
	}
	for _, s := range sources {
		if set > 1 && s.set && s.typ != m.Type {
			errs = append(errs, field.Forbidden(at.Child(s.name), "must populate the given metric source only"))
		}
	}
	return errs
}

func objectSource(s *v2.ObjectMetricSource, at *field.Path) field.ErrorList {
	errs := reference(s.DescribedObject, at.Child("describedObject"))
	errs = append(errs, identifier(s.Metric, at.Child("metric"))...)
	errs = append(errs, metricTarget(s.Target, at.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target"))
	}
	return errs
}

func externalSource(s *v2.ExternalMetricSource, at *field.Path) field.ErrorList {
	errs := identifier(s.Metric, at.Child("metric"))
	errs = append(errs, metricTarget(s.Target, at.Child("target"))...)
	switch {
	case s.Target.Value == nil && s.Target.AverageValue == nil:
		errs = append(errs, field.Required(at.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target"))
	case s.Target.Value != nil && s.Target.AverageValue != nil:
		errs = append(errs, field.Forbidden(at.Child("target", "value"), "may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func podsSource(s *v2.PodsMetricSource, at *field.Path) field.ErrorList {
	errs := identifier(s.Metric, at.Child("metric"))
	errs = append(errs, metricTarget(s.Target, at.Child("target"))...)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"), "must specify a positive target averageValue"))
	}
	return errs
}

func resourceSource(name string, t v2.MetricTarget, at *field.Path) field.ErrorList {
	errs := rule.Needed(name, at.Child("name"))
	errs = append(errs, metricTarget(t, at.Child("target"))...)
	switch {
	case t.AverageUtilization == nil && t.AverageValue == nil:
		errs = append(errs, field.Required(at.Child("target", "averageUtilization"), "must set either a target raw value or a target utilization"))
	case t.AverageUtilization != nil && t.AverageValue != nil:
		errs = append(errs, field.Forbidden(at.Child("target", "averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

func containerSource(s *v2.ContainerResourceMetricSource, at *field.Path) field.ErrorList {
	errs := rule.NeededFormat(s.Container, at.Child("container"), rule.Label)
	if s.Name != "" {
		errs = append(errs, podspec.ValidateContainerResourceName(s.Name, at.Child("name"))...)
	}
	return append(errs, resourceSource(string(s.Name), s.Target, at)...)
}

func identifier(m v2.MetricIdentifier, at *field.Path) field.ErrorList {
	return rule.NeededFormat(m.Name, at.Child("name"), path.IsValidPathSegmentName)
}

func metricTarget(t v2.MetricTarget, at *field.Path) (errs field.ErrorList) {
	switch t.Type {
	case "":
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric target type"))
	case v2.UtilizationMetricType, v2.ValueMetricType, v2.AverageValueMetricType:
	default:
		errs = append(errs, field.Invalid(at.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	for _, q := range []struct {
		name string
		v    *apiresource.Quantity
	}{{"value", t.Value}, {"averageValue", t.AverageValue}} {
		if q.v != nil && q.v.Sign() != 1 {
			errs = append(errs, field.Invalid(at.Child(q.name), q.v, "must be positive"))
		}
	}
	return append(errs, positive(t.AverageUtilization, at.Child("averageUtilization"))...)
}

func positive[T cmp.Ordered](v *T, at *field.Path) field.ErrorList {
	var zero T
	if v != nil && *v <= zero {
		return field.ErrorList{field.Invalid(at, *v, "must be greater than 0")}
	}
	return nil
}

func scaling(r *v2.HPAScalingRules, at *field.Path) (errs field.ErrorList) {
	if r == nil {
		return nil
	}
	if w := r.StabilizationWindowSeconds; w != nil {
		errs = append(errs, rule.Within(*w, 0, maxStabilization, at.Child("stabilizationWindowSeconds"))...)
	}
	errs = append(errs, rule.AmongPtr(r.SelectPolicy, at.Child("selectPolicy"),
		v2.MaxChangePolicySelect, v2.MinChangePolicySelect, v2.DisabledPolicySelect)...)
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(at.Child("policies"), "must specify at least one Policy"))
	}
	for i, p := range r.Policies {
		errs = append(errs, scalingPolicyRules(p, at.Child("policies").Index(i))...)
	}
	if r.Tolerance != nil && r.Tolerance.Sign() < 0 {
		errs = append(errs, field.Invalid(at.Child("tolerance"), r.Tolerance.String(), "must be greater than or equal to 0"))
	}
	return errs
}

func scalingPolicyRules(p v2.HPAScalingPolicy, at *field.Path) field.ErrorList {
	errs := rule.Among(p.Type, at.Child("type"), v2.PodsScalingPolicy, v2.PercentScalingPolicy)
	errs = append(errs, positive(&p.Value, at.Child("value"))...)
	errs = append(errs, positive(&p.PeriodSeconds, at.Child("periodSeconds"))...)
	if p.PeriodSeconds > maxPeriod {
		errs = append(errs, field.Invalid(at.Child("periodSeconds"), p.PeriodSeconds, "must be less than or equal to 1800"))
	}
	return errs
}
