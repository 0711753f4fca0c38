package apps

import (
	"strconv"

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

// DaemonSets declares the kind.
var DaemonSets = &resource.Def[*appsv1.DaemonSet]{
	GVK: gvk("DaemonSet"), Plural: "daemonsets", Short: []string{"ds"}, Categories: all, Namespaced: true,
	Quirks: resource.Quirks{MetaUpdateOnly: true, Hides: appsv1.DeprecatedTemplateGeneration,
		Blank: `{"metadata":{"annotations":{"` + appsv1.DeprecatedTemplateGeneration + `":"0"}}}`},
	Generation: true, Status: true,
	Gated: template.Gated(func(d *appsv1.DaemonSet) *corev1.PodTemplateSpec { return &d.Spec.Template },
		resource.Serving(validateDaemonSet)),
	Early:   labelled(func(o *appsv1.DaemonSet) map[string]string { return o.Spec.Template.Labels }, "extensions/v1beta1"),
	Default: defaultDaemonSet, Prepare: resource.Serving(prepareDaemonSet),
	PrepareStatus:  resource.Serving(func(d, old *appsv1.DaemonSet) { setTemplateGeneration(d, templateGeneration(old)) }),
	ValidateStatus: resource.Serving(validateDaemonSetStatus),
	Warn:           resource.Serving(warnDaemonSet),
	Columns: append([]resource.Column[*appsv1.DaemonSet]{
		count("Desired", func(s appsv1.DaemonSetStatus) int32 { return s.DesiredNumberScheduled }),
		count("Current", func(s appsv1.DaemonSetStatus) int32 { return s.CurrentNumberScheduled }),
		count("Ready", func(s appsv1.DaemonSetStatus) int32 { return s.NumberReady }),
		count("Up-to-date", func(s appsv1.DaemonSetStatus) int32 { return s.UpdatedNumberScheduled }),
		count("Available", func(s appsv1.DaemonSetStatus) int32 { return s.NumberAvailable }),
		resource.Col("Node Selector", "string", func(d *appsv1.DaemonSet) any {
			return cell.Labels(d.Spec.Template.Spec.NodeSelector)
		}),
		resource.Age[*appsv1.DaemonSet](),
	}, podColumns(func(d *appsv1.DaemonSet) (*corev1.PodTemplateSpec, *metav1.LabelSelector) {
		return &d.Spec.Template, d.Spec.Selector
	})...),
}

func warnDaemonSet(d, old *appsv1.DaemonSet) []string {
	if old == nil {
		return templateWarnings("", &d.Spec.Template)
	}
	return changedWarnings(&d.Spec, &old.Spec, &d.Spec.Template)
}

func count(name string, of func(appsv1.DaemonSetStatus) int32) resource.Column[*appsv1.DaemonSet] {
	return resource.Col(name, "integer", func(d *appsv1.DaemonSet) any { return int64(of(d.Status)) })
}

// defaultDaemonSet has one node at a time lose its pod in an update, and no node have two (KEP-1591): most of what runs on each node
// holds ports or devices.
func defaultDaemonSet(d *appsv1.DaemonSet) {
	s := &d.Spec
	rule.Fill(&s.RevisionHistoryLimit, 10)
	rule.FillZero(&s.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		rule.Fill(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		rule.Fill(&s.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		rule.Fill(&s.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	podspec.DefaultTemplate(&s.Template)
	if _, set := d.Annotations[appsv1.DeprecatedTemplateGeneration]; !set {
		setTemplateGeneration(d, 0) // for upstream the field is always there: who leaves the annotation out sets it to what it is not
	}
}

// prepareDaemonSet counts the versions of the template in an annotation, which older controllers and kubectl
// read as the template generation.
func prepareDaemonSet(d, old *appsv1.DaemonSet) {
	generation := int64(1)
	if old != nil {
		generation = templateGeneration(old)
		if !resource.Same(d.Spec.Template, old.Spec.Template) {
			generation++
		}
	}
	setTemplateGeneration(d, generation)
}

func setTemplateGeneration(d *appsv1.DaemonSet, n int64) {
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n, 10)
}

func templateGeneration(d *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// validateDaemonSet freezes the selector, as all workloads of apps/v1 do: pods that were made for the old one would be nobody's.
func validateDaemonSet(on *features.Set, d, old *appsv1.DaemonSet) (errs field.ErrorList) {
	s, spec := &d.Spec, field.NewPath("spec")
	w := workload{on: on, kind: "daemonset", ends: "DaemonSet", selector: s.Selector, template: &s.Template, lenient: true}
	if old != nil {
		w.oldSelector, w.oldTemplate = old.Spec.Selector, &old.Spec.Template
		errs = append(errs, rule.Frozen(s.Selector, old.Spec.Selector, spec.Child("selector"))...)
	}
	errs = append(errs, w.validate(spec)...)
	errs = append(errs, rule.AtLeast(s.MinReadySeconds, 0, spec.Child("minReadySeconds"))...)
	errs = append(errs, daemonSetStrategy(s.UpdateStrategy, spec.Child("updateStrategy"))...)
	return append(errs, rule.AtLeastPtr(s.RevisionHistoryLimit, 0, spec.Child("revisionHistoryLimit"))...)
}

// daemonSetStrategy needs parameters for RollingUpdate, which defaults give, and ignores those beside OnDelete, as upstream does.
func daemonSetStrategy(s appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(path.Child("rollingUpdate"), "")}
		}
		return daemonSetRolling(s.RollingUpdate, path.Child("rollingUpdate"))
	}
	return field.ErrorList{field.NotSupported(path, rule.Internal(s),
		[]appsv1.DaemonSetUpdateStrategyType{appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType})}
}

// daemonSetRolling lets exactly one of the two numbers be above zero: either the old pod goes first or the new one comes first
// (KEP-1591), and with neither nothing could move.
func daemonSetRolling(r *appsv1.RollingUpdateDaemonSet, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, countOrPercent(r.MaxUnavailable, path.Child("maxUnavailable"))...)
	errs = append(errs, countOrPercent(r.MaxSurge, path.Child("maxSurge"))...)
	unavailable, surge := !zero(r.MaxUnavailable), !zero(r.MaxSurge)
	switch {
	case unavailable && surge:
		errs = append(errs, field.Invalid(path.Child("maxSurge"), r.MaxSurge, "may not be set when maxUnavailable is non-zero"))
	case !unavailable && !surge:
		errs = append(errs, field.Required(path.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

// validateDaemonSetStatus lets no counter be negative. collisionCount only grows: it makes names of revisions differ.
func validateDaemonSetStatus(d, old *appsv1.DaemonSet) (errs field.ErrorList) {
	s, path := d.Status, field.NewPath("status")
	errs = nonNegative(path, map[string]int32{"currentNumberScheduled": s.CurrentNumberScheduled,
		"numberMisscheduled": s.NumberMisscheduled, "desiredNumberScheduled": s.DesiredNumberScheduled,
		"numberReady": s.NumberReady, "updatedNumberScheduled": s.UpdatedNumberScheduled,
		"numberAvailable": s.NumberAvailable, "numberUnavailable": s.NumberUnavailable})
	errs = append(errs, rule.AtLeast(s.ObservedGeneration, 0, path.Child("observedGeneration"))...)
	return append(errs, sinks(s.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}
