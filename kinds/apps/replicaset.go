package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
	"github.com/kloop-dev/kloop/resource"
)

// ReplicaSets declares the kind.
var ReplicaSets = &resource.Def[*appsv1.ReplicaSet]{
	GVK: gvk("ReplicaSet"), Plural: "replicasets", Short: []string{"rs"}, Categories: all, Namespaced: true,
	Quirks:     resource.Quirks{MetaUpdateOnly: true, Blank: `{"spec":{"replicas":0}}`},
	Generation: true, Status: true,
	Scale: &resource.Scaled[*appsv1.ReplicaSet]{
		Get: func(r *appsv1.ReplicaSet) resource.Scale {
			return scaleOf(r.Spec.Replicas, r.Status.Replicas, r.Spec.Selector)
		},
		Set: func(r *appsv1.ReplicaSet, n int32) { r.Spec.Replicas = &n },
	},
	Gated: template.Gated(func(r *appsv1.ReplicaSet) *corev1.PodTemplateSpec { return &r.Spec.Template },
		resource.Serving(validateReplicaSet)),
	Early:          labelled(func(o *appsv1.ReplicaSet) map[string]string { return o.Spec.Template.Labels }, "extensions/v1beta1"),
	Default:        defaultReplicaSet,
	ValidateStatus: resource.Serving(validateReplicaSetStatus),
	Warn:           resource.Serving(warnReplicaSet),
	Columns: append([]resource.Column[*appsv1.ReplicaSet]{
		resource.Col("Desired", "integer", func(r *appsv1.ReplicaSet) any { return number(r.Spec.Replicas) }),
		resource.Col("Current", "integer", func(r *appsv1.ReplicaSet) any { return int64(r.Status.Replicas) }),
		resource.Col("Ready", "integer", func(r *appsv1.ReplicaSet) any { return int64(r.Status.ReadyReplicas) }),
		resource.Age[*appsv1.ReplicaSet](),
	}, podColumns(func(r *appsv1.ReplicaSet) (*corev1.PodTemplateSpec, *metav1.LabelSelector) {
		return &r.Spec.Template, r.Spec.Selector
	})...),
}

func warnReplicaSet(r, old *appsv1.ReplicaSet) []string {
	if old == nil {
		return templateWarnings(r.Name, &r.Spec.Template)
	}
	return changedWarnings(&r.Spec, &old.Spec, &r.Spec.Template)
}

// podColumns returns the wide columns of a workload.
func podColumns[T resource.Object](of func(T) (*corev1.PodTemplateSpec, *metav1.LabelSelector)) []resource.Column[T] {
	template := func(o T) *corev1.PodTemplateSpec { t, _ := of(o); return t }
	selector := func(o T) *metav1.LabelSelector { _, s := of(o); return s }
	return append(cell.Pods(template), cell.Selecting(selector))
}

func defaultReplicaSet(r *appsv1.ReplicaSet) {
	rule.Fill(&r.Spec.Replicas, 1)
	podspec.DefaultTemplate(&r.Spec.Template)
}

// validateReplicaSet checks the fields that a ReplicaSet shares with a Deployment.
func validateReplicaSet(on *features.Set, r, old *appsv1.ReplicaSet) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	errs = append(errs, rule.AtLeastPtr(r.Spec.Replicas, 0, spec.Child("replicas"))...)
	errs = append(errs, rule.AtLeast(r.Spec.MinReadySeconds, 0, spec.Child("minReadySeconds"))...)
	// Upstream says "deployment" of a ReplicaSet, too.
	w := workload{on: on, kind: "deployment", ends: "ReplicaSet", selector: r.Spec.Selector, template: &r.Spec.Template}
	if old != nil {
		w.oldSelector, w.oldTemplate = old.Spec.Selector, &old.Spec.Template
	}
	if errs = append(errs, w.validate(spec)...); old != nil {
		errs = append(errs, rule.Frozen(r.Spec.Selector, old.Spec.Selector, spec.Child("selector"))...)
	}
	return errs
}

// validateReplicaSetStatus holds the counters to each other, as those of a Deployment.
func validateReplicaSetStatus(r, old *appsv1.ReplicaSet) (errs field.ErrorList) {
	s, path := r.Status, field.NewPath("status")
	errs = nonNegative(path, map[string]int32{"replicas": s.Replicas, "fullyLabeledReplicas": s.FullyLabeledReplicas,
		"readyReplicas": s.ReadyReplicas, "availableReplicas": s.AvailableReplicas})
	errs = append(errs, rule.AtLeast(s.ObservedGeneration, 0, path.Child("observedGeneration"))...)
	errs = append(errs, rule.AtLeastPtr(s.TerminatingReplicas, 0, path.Child("terminatingReplicas"))...)
	return append(errs, notMore(path, []bound{
		{"fullyLabeledReplicas", s.FullyLabeledReplicas, s.Replicas, "status.replicas"},
		{"readyReplicas", s.ReadyReplicas, s.Replicas, "status.replicas"},
		{"availableReplicas", s.AvailableReplicas, s.Replicas, "status.replicas"},
		{"availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "readyReplicas"},
	})...)
}
