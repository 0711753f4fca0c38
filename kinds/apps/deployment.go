package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
	"github.com/kloop-dev/kloop/resource"
)

// Deployments declares the kind.
var Deployments = &resource.Def[*appsv1.Deployment]{
	GVK: gvk("Deployment"), Plural: "deployments", Short: []string{"deploy"}, Categories: all, Namespaced: true,
	Quirks: resource.Quirks{MetaUpdateOnly: true, Hides: "deprecated.deployment.rollback.to", StatusResets: []string{"metadata.labels"},
		Blank: `{"spec":{"replicas":0}}`},
	Generation: true, Status: true,
	Scale: &resource.Scaled[*appsv1.Deployment]{
		Get: func(d *appsv1.Deployment) resource.Scale {
			return scaleOf(d.Spec.Replicas, d.Status.Replicas, d.Spec.Selector)
		},
		Set: func(d *appsv1.Deployment, n int32) { d.Spec.Replicas = &n },
	},
	Gated: template.Gated(func(d *appsv1.Deployment) *corev1.PodTemplateSpec { return &d.Spec.Template },
		resource.Serving(validateDeployment)),
	Early:   labelled(func(o *appsv1.Deployment) map[string]string { return o.Spec.Template.Labels }, "apps/v1beta1", "extensions/v1beta1"),
	Default: defaultDeployment, Prepare: resource.Serving(prepareDeployment),
	ValidateStatus: resource.Serving(validateDeploymentStatus),
	Warn:           resource.Serving(warnDeployment),
	Columns: append([]resource.Column[*appsv1.Deployment]{
		resource.Col("Ready", "string", func(d *appsv1.Deployment) any {
			return fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, number(d.Spec.Replicas))
		}),
		resource.Col("Up-to-date", "string", func(d *appsv1.Deployment) any { return int64(d.Status.UpdatedReplicas) }),
		resource.Col("Available", "string", func(d *appsv1.Deployment) any { return int64(d.Status.AvailableReplicas) }),
		resource.Age[*appsv1.Deployment](),
	}, append(cell.Pods(func(d *appsv1.Deployment) *corev1.PodTemplateSpec { return &d.Spec.Template }),
		resource.Wide("Selector", "string", func(d *appsv1.Deployment) any { return plainSelector(d.Spec.Selector) }))...),
}

func warnDeployment(d, old *appsv1.Deployment) []string {
	if old == nil {
		return templateWarnings(d.Name, &d.Spec.Template)
	}
	return changedWarnings(&d.Spec, &old.Spec, &d.Spec.Template)
}

// plainSelector prints a selector in the way of Deployments alone: nothing for none.
func plainSelector(s *metav1.LabelSelector) string {
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "<invalid>"
	}
	return sel.String()
}

// defaultDeployment fills in upstream's numbers: a quarter of the pods more and a quarter less during a rollout, ten revisions to go back
// to, and ten minutes without progress before a rollout counts as failed.
func defaultDeployment(d *appsv1.Deployment) {
	s := &d.Spec
	rule.Fill(&s.Replicas, 1)
	rule.Fill(&s.RevisionHistoryLimit, 10)
	rule.Fill(&s.ProgressDeadlineSeconds, 600)
	rule.FillZero(&s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		rule.Fill(&s.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		rule.Fill(&s.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		rule.Fill(&s.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	podspec.DefaultTemplate(&s.Template)
}

// prepareDeployment counts a change of the annotations as one of what is wanted: they are handed down to the sets.
func prepareDeployment(d, old *appsv1.Deployment) {
	if old != nil && !resource.Same(d.Annotations, old.Annotations) {
		d.Generation = old.Generation + 1
	}
}

// validateDeployment wants the deadline for progress to be longer than minReadySeconds: no pod could become available before it is over.
func validateDeployment(on *features.Set, d, old *appsv1.Deployment) (errs field.ErrorList) {
	s, spec := &d.Spec, field.NewPath("spec")
	errs = append(errs, rule.AtLeastPtr(s.Replicas, 0, spec.Child("replicas"))...)
	w := workload{on: on, kind: "deployment", ends: "ReplicaSet", selector: s.Selector, template: &s.Template}
	if old != nil {
		w.oldSelector, w.oldTemplate = old.Spec.Selector, &old.Spec.Template
	}
	errs = append(errs, w.validate(spec)...)
	errs = append(errs, deploymentStrategy(s.Strategy, spec.Child("strategy"))...)
	errs = append(errs, rule.AtLeast(s.MinReadySeconds, 0, spec.Child("minReadySeconds"))...)
	errs = append(errs, rule.AtLeastPtr(s.RevisionHistoryLimit, 0, spec.Child("revisionHistoryLimit"))...)
	if p := s.ProgressDeadlineSeconds; p != nil {
		path := spec.Child("progressDeadlineSeconds")
		errs = append(errs, rule.AtLeast(*p, 0, path)...)
		if *p <= s.MinReadySeconds {
			errs = append(errs, field.Invalid(path, *p, "must be greater than minReadySeconds"))
		}
	}
	if old != nil {
		errs = append(errs, rule.Frozen(s.Selector, old.Spec.Selector, spec.Child("selector"))...)
	}
	return errs
}

// deploymentStrategy refuses parameters of rolling updates beside Recreate, where they would mean nothing: who changes the type takes
// them out in the same patch.
func deploymentStrategy(s appsv1.DeploymentStrategy, path *field.Path) (errs field.ErrorList) {
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			errs = append(errs, field.Forbidden(path.Child("rollingUpdate"),
				"may not be specified when strategy `type` is '"+string(s.Type)+"'"))
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(path.Child("rollingUpdate"), "should not be nil")}
		}
		errs = rolling(s.RollingUpdate.MaxUnavailable, s.RollingUpdate.MaxSurge, path.Child("rollingUpdate"))
	default:
		errs = field.ErrorList{field.NotSupported(path, rule.Internal(s),
			[]appsv1.DeploymentStrategyType{appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType})}
	}
	return errs
}

// rolling takes counts and percentages. With both zero no pod could go and none could come.
func rolling(unavailable, surge *intstr.IntOrString, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, onlyValid(unavailable, path.Child("maxUnavailable"))...)
	errs = append(errs, onlyValid(surge, path.Child("maxSurge"))...)
	if zero(unavailable) && zero(surge) {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
	}
	if unavailable != nil {
		errs = append(errs, rule.AtMostAll(*unavailable, path.Child("maxUnavailable"))...)
	}
	return errs
}

func onlyValid(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	return rule.CountOrPercent(*v, path)
}

// validateDeploymentStatus holds the counters to each other: what is available is ready, and what is ready exists. terminatingReplicas is
// not among the replicas (KEP-3973).
func validateDeploymentStatus(d, old *appsv1.Deployment) (errs field.ErrorList) {
	s, path := d.Status, field.NewPath("status")
	errs = append(errs, rule.AtLeast(s.ObservedGeneration, 0, path.Child("observedGeneration"))...)
	errs = append(errs, nonNegative(path, map[string]int32{"replicas": s.Replicas, "updatedReplicas": s.UpdatedReplicas,
		"readyReplicas": s.ReadyReplicas, "availableReplicas": s.AvailableReplicas,
		"unavailableReplicas": s.UnavailableReplicas})...)
	errs = append(errs, rule.AtLeastPtr(s.TerminatingReplicas, 0, path.Child("terminatingReplicas"))...)
	errs = append(errs, notMore(path, []bound{
		{"updatedReplicas", s.UpdatedReplicas, s.Replicas, "status.replicas"},
		{"readyReplicas", s.ReadyReplicas, s.Replicas, "status.replicas"},
		{"availableReplicas", s.AvailableReplicas, s.Replicas, "status.replicas"},
		{"availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "readyReplicas"},
	})...)
	return append(errs, sinks(s.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}
