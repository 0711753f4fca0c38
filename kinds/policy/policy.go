// Package policy declares the kind that limits how many pods may be disrupted at once.
package policy

import (
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

type pdb = *policyv1.PodDisruptionBudget

// PodDisruptionBudgets declares the kind.
var PodDisruptionBudgets = &resource.Def[pdb]{
	GVK: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), Plural: "poddisruptionbudgets", Short: []string{"pdb"},
	Quirks: resource.Quirks{MetaUpdateOnly: true,
		NeedsRevision: true, MetaErrorsOnce: true, MetaErrorsLast: true, UnqualifiedFinalizers: true},
	Namespaced: true, Name: rule.Unchecked, Generation: true, Status: true,
	Validate: resource.Serving(validateBudget),
	Gated:    resource.Gated[pdb]{ValidateStatus: resource.Serving(validateBudgetStatus), Drop: resource.Serving(dropLabel)},
	Columns: []resource.Column[pdb]{
		resource.Col("Min Available", "string", func(p pdb) any { return count(p.Spec.MinAvailable) }),
		resource.Col("Max Unavailable", "string", func(p pdb) any { return count(p.Spec.MaxUnavailable) }),
		resource.Col("Allowed Disruptions", "integer", func(p pdb) any { return int64(p.Status.DisruptionsAllowed) }),
		resource.Age[pdb](),
	},
}

// emptySelector is a label by which an old version told selectors of no pod from those of all.
const emptySelector = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

// dropLabel takes the label out of a new selector, unless it is all that the selector asks for.
func dropLabel(_ *features.Set, p, old pdb) {
	s := p.Spec.Selector
	if s == nil || old != nil && equality.Semantic.DeepEqual(s, old.Spec.Selector) {
		return
	}
	named := func(r metav1.LabelSelectorRequirement) bool { return r.Key == emptySelector }
	if len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 1 && s.MatchExpressions[0].Operator == metav1.LabelSelectorOpExists ||
		!slices.ContainsFunc(s.MatchExpressions, named) {
		return
	}
	p.Spec.Selector = s.DeepCopy()
	p.Spec.Selector.MatchExpressions = slices.DeleteFunc(p.Spec.Selector.MatchExpressions, named)
}

func count(v *intstr.IntOrString) string {
	if v == nil {
		return "N/A"
	}
	return v.String()
}

func validateBudget(p, old pdb) (errs field.ErrorList) {
	s, spec := &p.Spec, field.NewPath("spec")
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(spec, rule.Internal(*s), "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, limit(s.MinAvailable, spec.Child("minAvailable"))...)
	errs = append(errs, limit(s.MaxUnavailable, spec.Child("maxUnavailable"))...)
	if old != nil {
		errs = append(errs, rule.SelectorAsBefore(s.Selector, old.Spec.Selector, spec.Child("selector"))...)
	} else {
		errs = append(errs, rule.Selector(s.Selector, spec.Child("selector"))...)
	}
	return append(errs, rule.AmongPtr(s.UnhealthyPodEvictionPolicy, spec.Child("unhealthyPodEvictionPolicy"),
		policyv1.IfHealthyBudget, policyv1.AlwaysAllow)...)
}

func limit(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	return append(rule.CountOrPercent(*v, path), rule.AtMostAll(*v, path)...)
}

func validateBudgetStatus(on *features.Set, p, _ pdb) field.ErrorList {
	s, path := &p.Status, field.NewPath("status")
	errs := rule.Conditions(on, s.Conditions, path.Child("conditions"))
	errs = append(errs, rule.AtLeast(s.DisruptionsAllowed, 0, path.Child("disruptionsAllowed"))...)
	errs = append(errs, rule.AtLeast(s.CurrentHealthy, 0, path.Child("currentHealthy"))...)
	errs = append(errs, rule.AtLeast(s.DesiredHealthy, 0, path.Child("desiredHealthy"))...)
	return append(errs, rule.AtLeast(s.ExpectedPods, 0, path.Child("expectedPods"))...)
}
