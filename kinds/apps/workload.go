package apps

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
	"github.com/kloop-dev/kloop/resource"
)

// A workload holds what the kinds of this group have in common: a selector and a template that it must match.
type workload struct {
	on                    *features.Set
	kind, ends            string // as complaints name it, and as those do about pods that may end
	selector, oldSelector *metav1.LabelSelector
	template, oldTemplate *corev1.PodTemplateSpec
	lenient               bool // a missing selector is reported only as not matching: DaemonSets
	stateful              bool // metadata of the template is checked once more, and restarts with any selector: StatefulSets
}

func (w workload) validate(spec *field.Path) (errs field.ErrorList) {
	selector, at := spec.Child("selector"), spec.Child("template")
	if w.selector == nil {
		if !w.lenient {
			errs = append(errs, field.Required(selector, ""))
		}
	} else {
		errs = append(errs, rule.SelectorAsBefore(w.selector, w.oldSelector, selector)...)
		if rule.EmptySelector(w.selector) {
			errs = append(errs, field.Invalid(selector, w.selector, "empty selector is invalid for "+w.kind))
		}
	}
	sel, err := metav1.LabelSelectorAsSelector(w.selector)
	switch {
	case err != nil && !w.lenient:
		errs = append(errs, field.Invalid(selector, w.selector, "invalid label selector"))
		if w.stateful {
			errs[len(errs)-1].Detail = ""
			errs = append(errs, template.AlwaysRestart(w.template, w.ends, at)...)
		}
		return errs // nothing else about the template
	case err == nil && !sel.Matches(labels.Set(w.template.Labels)):
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), w.template.Labels,
			"`selector` does not match template `labels`"))
	}
	errs = append(errs, template.Validate(w.on, w.template, w.oldTemplate, at)...)
	if w.stateful {
		errs = append(errs, metadataAgain(w.template, at)...)
	}
	return append(errs, template.AlwaysRestart(w.template, w.ends, at)...)
}

// metadataAgain checks labels and annotations of a template a second time, on paths without "metadata".
func metadataAgain(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	at := path.Child("annotations")
	errs := metavalidation.ValidateLabels(t.Labels, path.Child("labels"))
	errs = append(errs, validation.ValidateAnnotations(t.Annotations, at)...)
	return append(errs, podspec.ValidateAnnotations(t.Annotations, &t.Spec, at)...)
}

// templateWarnings warns of the template of a new object; name is that of the object if its pods are named after it.
func templateWarnings(name string, t *corev1.PodTemplateSpec) []string {
	return template.Warnings(name, t, field.NewPath("spec", "template"))
}

// changedWarnings warns again whenever anything of the spec changes.
func changedWarnings(spec, was any, t *corev1.PodTemplateSpec) []string {
	if resource.Same(spec, was) {
		return nil
	}
	return templateWarnings("", t)
}

// nonNegative checks the counters of a status.
func nonNegative(path *field.Path, counters map[string]int32) (errs field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		errs = append(errs, rule.AtLeast(counters[name], 0, path.Child(name))...)
	}
	return errs
}

// A bound says that one counter of a status must not exceed another.
type bound struct {
	field     string
	value     int32
	max       int32
	otherName string
}

func notMore(path *field.Path, bounds []bound) (errs field.ErrorList) {
	for _, b := range bounds {
		if b.value > b.max {
			errs = append(errs, field.Invalid(path.Child(b.field), b.value, "cannot be greater than "+b.otherName))
		}
	}
	return errs
}

// countOrPercent checks a number of pods of a rolling update.
func countOrPercent(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	return append(rule.CountOrPercent(*v, path), rule.AtMostAll(*v, path)...)
}

// zero reports whether a count of a rolling update comes to nothing.
func zero(v *intstr.IntOrString) bool { return v == nil || rule.Number(*v) == 0 }

// sinks refuses a collision count that goes down: revisions named by it would collide again.
func sinks(count, old *int32, path *field.Path) (errs field.ErrorList) {
	errs = rule.AtLeastPtr(count, 0, path)
	if old == nil {
		return errs
	}
	if count == nil || *count < *old {
		errs = append(errs, field.Invalid(path, number(count), "cannot be decremented"))
	}
	return errs
}
