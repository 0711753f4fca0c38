package autoscaling

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
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

// validateAutoscaler lets minReplicas be zero only with the gate (KEP-2021), or where it was so before. The target's apiVersion is
// checked when it is new: older releases took any.
func validateAutoscaler(on *features.Set, h, old hpa) (errs field.ErrorList) {
	s, spec := &h.Spec, field.NewPath("spec")
	least := int32(1)
	if on.On("HPAScaleToZero") || old != nil && old.Spec.MinReplicas != nil && *old.Spec.MinReplicas == 0 {
		least = 0
	}
	errs = append(errs, rule.AtLeastPtr(s.MinReplicas, least, spec.Child("minReplicas"))...)
	most := spec.Child("maxReplicas")
	declared, needed := on.AtLeast(37), "must be set and greater than 0"
	if declared {
		needed = ""
	}
	var few field.ErrorList
	switch {
	case s.MaxReplicas == 0:
		errs = append(errs, field.Required(most, needed))
	case s.MaxReplicas < 0:
		few = rule.AtLeast(s.MaxReplicas, 1, most)
	}
	if !declared {
		errs = append(errs, few...)
	}
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		errs = append(errs, field.Invalid(most, s.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, reference(s.ScaleTargetRef, spec.Child("scaleTargetRef"))...)
	if old == nil || old.Spec.ScaleTargetRef.APIVersion != s.ScaleTargetRef.APIVersion ||
		old.Spec.ScaleTargetRef.Kind != s.ScaleTargetRef.Kind {
		group := s.ScaleTargetRef.Kind != "ReplicationController" // which alone scales in the core group
		errs = append(errs, groupVersion(s.ScaleTargetRef, group, spec.Child("scaleTargetRef", "apiVersion"))...)
	}
	errs = append(errs, validateMetrics(s, old, spec.Child("metrics"))...)
	if b := s.Behavior; b != nil {
		errs = append(errs, scaling(b.ScaleUp, spec.Child("behavior", "scaleUp"))...)
		errs = append(errs, scaling(b.ScaleDown, spec.Child("behavior", "scaleDown"))...)
	}
	if declared {
		errs = append(errs, few...)
	}
	return errs
}

func validateAutoscalerStatus(h, _ hpa) field.ErrorList {
	status := field.NewPath("status")
	return append(rule.AtLeast(h.Status.CurrentReplicas, 0, status.Child("currentReplicas")),
		rule.AtLeast(h.Status.DesiredReplicas, 0, status.Child("desiredReplicas"))...)
}

func reference(r autoscalingv2.CrossVersionObjectReference, at *field.Path) field.ErrorList {
	errs := rule.NeededFormat(r.Kind, at.Child("kind"), path.IsValidPathSegmentName)
	return append(errs, rule.NeededFormat(r.Name, at.Child("name"), path.IsValidPathSegmentName)...)
}

// groupVersion checks the version of an object, which may be required to be of a group with a name.
func groupVersion(r autoscalingv2.CrossVersionObjectReference, group bool, at *field.Path) field.ErrorList {
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, r.APIVersion, err.Error())}
	case group && gv.Group == "":
		return field.ErrorList{field.Invalid(at, r.APIVersion, "apiVersion must specify API group")}
	}
	return nil
}

// validateMetrics wants a metric that is not of the pods for a target at zero: without pods nothing else could ever say that some are
// needed.
func validateMetrics(s *autoscalingv2.HorizontalPodAutoscalerSpec, old hpa, at *field.Path) (errs field.ErrorList) {
	wakes := false // from zero
	tolerant := old != nil && slices.ContainsFunc(old.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil && len(groupVersion(m.Object.DescribedObject, false, nil)) > 0
	})
	for i, m := range s.Metrics {
		wakes = wakes || m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
		errs = append(errs, metricSpec(m, tolerant, at.Index(i))...)
	}
	if s.MinReplicas != nil && *s.MinReplicas == 0 && !wakes {
		errs = append(errs, field.Forbidden(at, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

// metricSpec checks that the source which the type names is there, and checks the first source there is. A tolerant one
// takes any version of an object.
func metricSpec(m autoscalingv2.MetricSpec, tolerant bool, at *field.Path) (errs field.ErrorList) {
	sources := []struct {
		typ   autoscalingv2.MetricSourceType
		name  string
		set   bool
		check func(*field.Path) field.ErrorList
	}{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil,
			func(p *field.Path) field.ErrorList { return objectSource(m.Object, tolerant, p) }},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil,
			func(p *field.Path) field.ErrorList { return externalSource(m.External, p) }},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(p *field.Path) field.ErrorList { return podsSource(m.Pods, p) }},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(p *field.Path) field.ErrorList {
			return resourceSource(string(m.Resource.Name), m.Resource.Target, p)
		}},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func(p *field.Path) field.ErrorList {
			return containerSource(m.ContainerResource, p)
		}},
	}
	types := []autoscalingv2.MetricSourceType{autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType,
		autoscalingv2.ObjectMetricSourceType,
		autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType}
	if m.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric source type"))
	}
	errs = append(errs, rule.Among(m.Type, at.Child("type"), types...)...)
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

// objectSource is a metric of one other object. tolerant: the stored autoscaler has such an apiVersion already, and may keep it.
func objectSource(s *autoscalingv2.ObjectMetricSource, tolerant bool, at *field.Path) field.ErrorList {
	errs := reference(s.DescribedObject, at.Child("describedObject"))
	if !tolerant {
		errs = append(errs, groupVersion(s.DescribedObject, false, at.Child("describedObject", "apiVersion"))...)
	}
	errs = append(errs, identifier(s.Metric, at.Child("metric"))...)
	errs = append(errs, metricTarget(s.Target, at.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

// externalSource is a metric from outside the cluster, compared as a whole or divided among the pods.
func externalSource(s *autoscalingv2.ExternalMetricSource, at *field.Path) field.ErrorList {
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

func podsSource(s *autoscalingv2.PodsMetricSource, at *field.Path) field.ErrorList {
	errs := identifier(s.Metric, at.Child("metric"))
	errs = append(errs, metricTarget(s.Target, at.Child("target"))...)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"), "must specify a positive target averageValue"))
	}
	return errs
}

func resourceSource(name string, t autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(at.Child("name"), "must specify a resource name"))
	}
	return append(errs, resourceTarget(t, at)...)
}

// resourceTarget is an average for each pod: an amount, or a percentage of the request.
func resourceTarget(t autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	errs := metricTarget(t, at.Child("target"))
	switch {
	case t.AverageUtilization == nil && t.AverageValue == nil:
		errs = append(errs, field.Required(at.Child("target", "averageUtilization"),
			"must set either a target raw value or a target utilization"))
	case t.AverageUtilization != nil && t.AverageValue != nil:
		errs = append(errs, field.Forbidden(at.Child("target", "averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

// containerSource is a resource of one container alone (KEP-1610), so that a sidecar's idling does not hide that the program is busy.
func containerSource(s *autoscalingv2.ContainerResourceMetricSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "must specify a resource name"))
	} else {
		errs = append(errs, podspec.ValidateContainerResourceName(s.Name, at.Child("name"))...)
	}
	if s.Container == "" {
		errs = append(errs, field.Required(at.Child("container"), "must specify a container"))
	} else {
		errs = append(errs, rule.Format(s.Container, at.Child("container"), rule.Label)...)
	}
	return append(errs, resourceTarget(s.Target, at)...)
}

func identifier(m autoscalingv2.MetricIdentifier, at *field.Path) field.ErrorList {
	if m.Name == "" {
		return field.ErrorList{field.Required(at.Child("name"), "must specify a metric name")}
	}
	return rule.Format(m.Name, at.Child("name"), path.IsValidPathSegmentName)
}

// metricTarget checks the numbers that are given. Which of them a source needs, the source says.
func metricTarget(t autoscalingv2.MetricTarget, at *field.Path) (errs field.ErrorList) {
	if t.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric target type"))
	}
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
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
	if u := t.AverageUtilization; u != nil && *u < 1 {
		errs = append(errs, field.Invalid(at.Child("averageUtilization"), *u, "must be greater than 0"))
	}
	return errs
}

func scaling(r *autoscalingv2.HPAScalingRules, at *field.Path) (errs field.ErrorList) {
	if r == nil {
		return nil
	}
	switch w := r.StabilizationWindowSeconds; {
	case w == nil:
	case *w < 0:
		errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), *w, "must be greater than or equal to zero"))
	case *w > maxStabilization:
		errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), *w, "must be less than or equal to 3600"))
	}
	errs = append(errs, rule.AmongPtr(r.SelectPolicy, at.Child("selectPolicy"),
		autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect)...)
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

// scalingPolicyRules bounds a policy's period to half an hour: the loop remembers what it did for so long.
func scalingPolicyRules(p autoscalingv2.HPAScalingPolicy, at *field.Path) field.ErrorList {
	errs := rule.Among(p.Type, at.Child("type"), autoscalingv2.PodsScalingPolicy, autoscalingv2.PercentScalingPolicy)
	if p.Value <= 0 {
		errs = append(errs, field.Invalid(at.Child("value"), p.Value, "must be greater than zero"))
	}
	if p.PeriodSeconds <= 0 {
		errs = append(errs, field.Invalid(at.Child("periodSeconds"), p.PeriodSeconds, "must be greater than zero"))
	}
	if p.PeriodSeconds > maxPeriod {
		errs = append(errs, field.Invalid(at.Child("periodSeconds"), p.PeriodSeconds, "must be less than or equal to 1800"))
	}
	return errs
}
