// Package autoscaling declares the kind that scales other kinds. It is stored and worked with as v2; v1 is
// the same object with what v1 cannot say kept in annotations.
package autoscaling

import (
	"strconv"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

type hpa = *autoscalingv2.HorizontalPodAutoscaler

// HorizontalPodAutoscalers declares the kind.
var HorizontalPodAutoscalers = &resource.Def[hpa]{
	GVK: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), Plural: "horizontalpodautoscalers",
	Quirks: resource.Quirks{MetaUpdateOnly: true,
		Declared: []string{"Invalid spec.minReplicas", "Required spec.maxReplicas"}},
	Short: []string{"hpa"}, Categories: []string{"all"}, Namespaced: true, Status: true,
	Default: defaultAutoscaler, ValidateStatus: resource.Serving(validateAutoscalerStatus),
	Gated: resource.Gated[hpa]{
		Generation: func(on *features.Set) bool { return on.AtLeast(37) },
		Validate:   resource.Serving(validateAutoscaler),
	},
	Columns: []resource.Column[hpa]{
		resource.Col("Reference", "string", func(h hpa) any {
			return h.Spec.ScaleTargetRef.Kind + "/" + h.Spec.ScaleTargetRef.Name
		}),
		resource.Col("Targets", "string", func(h hpa) any { return targets(h.Spec.Metrics, h.Status.CurrentMetrics) }),
		resource.Col("MinPods", "string", func(h hpa) any {
			if h.Spec.MinReplicas == nil {
				return cell.Unset
			}
			return strconv.Itoa(int(*h.Spec.MinReplicas))
		}),
		resource.Col("MaxPods", "string", func(h hpa) any { return int64(h.Spec.MaxReplicas) }),
		resource.Col("Replicas", "string", func(h hpa) any { return int64(h.Status.CurrentReplicas) }),
		resource.Age[hpa](),
	},
	Also: older(),
}

// defaultAutoscaler fills in rules only where behavior is given (KEP-853): without it the loop goes by its own settings. Up: at once, by
// four pods or to twice as many in 15 seconds, whichever is more. Down: after the loop's time of stabilization.
func defaultAutoscaler(h hpa) {
	rule.Fill(&h.Spec.MinReplicas, 1)
	if len(h.Spec.Metrics) == 0 {
		h.Spec.Metrics = []autoscalingv2.MetricSpec{cpu(80)}
	}
	if b := h.Spec.Behavior; b != nil {
		fillRules(&b.ScaleUp, autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)),
			SelectPolicy: new(autoscalingv2.MaxChangePolicySelect), Policies: []autoscalingv2.HPAScalingPolicy{
				{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
				{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}}})
		fillRules(&b.ScaleDown, autoscalingv2.HPAScalingRules{SelectPolicy: new(autoscalingv2.MaxChangePolicySelect),
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}}})
	}
}

// fillRules gives a direction that is there what it leaves out, one field at a time.
func fillRules(r **autoscalingv2.HPAScalingRules, def autoscalingv2.HPAScalingRules) {
	rule.Fill(r, def)
	if (*r).StabilizationWindowSeconds == nil {
		(*r).StabilizationWindowSeconds = def.StabilizationWindowSeconds
	}
	if (*r).SelectPolicy == nil {
		(*r).SelectPolicy = def.SelectPolicy
	}
	if (*r).Policies == nil {
		(*r).Policies = def.Policies
	}
}

func cpu(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent}}}
}
