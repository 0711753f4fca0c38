package admissionregistration

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// ValidatingAdmissionPolicies declares the kind.
var ValidatingAdmissionPolicies = &resource.Def[*admissionregistrationv1.ValidatingAdmissionPolicy]{
	GVK: gvk("ValidatingAdmissionPolicy"), Plural: "validatingadmissionpolicies", Categories: categories, Generation: true, Status: true,
	Quirks: resource.Quirks{NeedsRevision: true, MetaErrorsOnce: true, UnqualifiedFinalizers: true, StatusResets: []string{"metadata"}},
	Default: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
		rule.Fill(&p.Spec.FailurePolicy, admissionregistrationv1.Fail)
		defaultMatch(p.Spec.MatchConstraints)
	},
	Gated: judgingStatus(validatingStatus, reserving(func(p, old *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
		if old != nil && resource.Same(p.Spec, old.Spec) {
			return nil
		}
		return validatingSpec(p.Name, &p.Spec, field.NewPath("spec"))
	})),
	Columns: []resource.Column[*admissionregistrationv1.ValidatingAdmissionPolicy]{
		resource.Col("Validations", "integer",
			func(p *admissionregistrationv1.ValidatingAdmissionPolicy) any { return int64(len(p.Spec.Validations)) }),
		resource.Col("ParamKind", "string",
			func(p *admissionregistrationv1.ValidatingAdmissionPolicy) any { return paramKindText(p.Spec.ParamKind) }),
		resource.Age[*admissionregistrationv1.ValidatingAdmissionPolicy](),
	},
}

// MutatingAdmissionPolicies declares the kind.
var MutatingAdmissionPolicies = &resource.Def[*admissionregistrationv1.MutatingAdmissionPolicy]{
	GVK: gvk("MutatingAdmissionPolicy"), Plural: "mutatingadmissionpolicies", Categories: categories, Generation: true,
	Quirks: resource.Quirks{NeedsRevision: true, MetaErrorsOnce: true, UnqualifiedFinalizers: true},
	Default: func(p *admissionregistrationv1.MutatingAdmissionPolicy) {
		rule.Fill(&p.Spec.FailurePolicy, admissionregistrationv1.Fail)
		defaultMatch(p.Spec.MatchConstraints)
	},
	Gated: reserving(func(p, old *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
		if old != nil && resource.Same(p.Spec, old.Spec) {
			return nil
		}
		return mutatingSpec(&p.Spec, field.NewPath("spec"))
	}),
	Columns: []resource.Column[*admissionregistrationv1.MutatingAdmissionPolicy]{
		resource.Col("Mutations", "integer",
			func(p *admissionregistrationv1.MutatingAdmissionPolicy) any { return int64(len(p.Spec.Mutations)) }),
		resource.Col("ParamKind", "string",
			func(p *admissionregistrationv1.MutatingAdmissionPolicy) any { return paramKindText(p.Spec.ParamKind) }),
		resource.Age[*admissionregistrationv1.MutatingAdmissionPolicy](),
	},
}

func bindingRules() resource.Gated[*admissionregistrationv1.ValidatingAdmissionPolicyBinding] {
	spec := field.NewPath("spec")
	rules := reserving(func(b, _ *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
		return binding(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, spec)
	})
	others := rules.Validate
	rules.Validate = func(on *features.Set, b, old *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
		return append(others(on, b, old), actions(on, b.Spec.ValidationActions, spec.Child("validationActions"))...)
	}
	return rules
}

// ValidatingAdmissionPolicyBindings declares the kind.
var ValidatingAdmissionPolicyBindings = &resource.Def[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{
	GVK: gvk("ValidatingAdmissionPolicyBinding"), Plural: "validatingadmissionpolicybindings", Categories: categories, Generation: true,
	Quirks: resource.Quirks{NeedsRevision: true, MetaErrorsOnce: true, UnqualifiedFinalizers: true,
		Declared: []string{"Required spec.policyName", "Required spec.validationActions"}},
	Default: func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
		defaultMatch(b.Spec.MatchResources)
	},
	Gated: bindingRules(),
	Columns: []resource.Column[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{
		resource.Col("PolicyName", "string", func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) any { return b.Spec.PolicyName }),
		resource.Col("ParamRef", "string", func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) any {
			return paramRefText(b.Spec.ParamRef)
		}),
		resource.Age[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](),
	},
}

// MutatingAdmissionPolicyBindings declares the kind.
var MutatingAdmissionPolicyBindings = &resource.Def[*admissionregistrationv1.MutatingAdmissionPolicyBinding]{
	GVK: gvk("MutatingAdmissionPolicyBinding"), Plural: "mutatingadmissionpolicybindings", Categories: categories, Generation: true,
	Quirks: resource.Quirks{NeedsRevision: true, MetaErrorsOnce: true, UnqualifiedFinalizers: true},
	Default: func(b *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
		defaultMatch(b.Spec.MatchResources)
	},
	Gated: reserving(func(b, _ *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
		spec := field.NewPath("spec")
		errs := binding(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, spec)
		return append(errs, mutable(b.Spec.MatchResources, spec.Child("matchResources"))...)
	}),
	Columns: []resource.Column[*admissionregistrationv1.MutatingAdmissionPolicyBinding]{
		resource.Col("PolicyName", "string", func(b *admissionregistrationv1.MutatingAdmissionPolicyBinding) any { return b.Spec.PolicyName }),
		resource.Col("ParamRef", "string", func(b *admissionregistrationv1.MutatingAdmissionPolicyBinding) any {
			return paramRefText(b.Spec.ParamRef)
		}),
		resource.Age[*admissionregistrationv1.MutatingAdmissionPolicyBinding](),
	},
}

func judgingStatus[T resource.Object](check func(on *features.Set, obj, old T) field.ErrorList, g resource.Gated[T]) resource.Gated[T] {
	g.ValidateStatus = check
	return g
}

// validatingStatus judges what the loop that checks types wrote (KEP-3488): each warning names the expression that it is about by a path
// in the spec, so the path must be one.
func validatingStatus(on *features.Set, p, _ *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	status := field.NewPath("status")
	errs := rule.Conditions(on, p.Status.Conditions, status.Child("conditions"))
	if p.Status.TypeChecking == nil {
		return errs
	}
	for i, w := range p.Status.TypeChecking.ExpressionWarnings {
		at := status.Child("typeChecking", "expressionWarnings").Index(i)
		errs = append(errs, rule.Needed(w.Warning, at.Child("warning"))...)
		ref := strings.TrimSpace(w.FieldRef)
		errs = append(errs, rule.NeededFormat(ref, at.Child("fieldRef"), func(s string) []string {
			if err := jsonpath.New("spec").Parse("{" + s + "}"); err != nil {
				return []string{"invalid JSONPath: " + err.Error()}
			}
			return nil
		})...)
	}
	return errs
}

func paramKindText(k *admissionregistrationv1.ParamKind) string {
	if k == nil {
		return cell.Unset
	}
	return k.APIVersion + "/" + k.Kind
}

// paramRefText is the column PARAMS of a binding. A name without a namespace means the namespace of each object that is judged, hence the
// star.
func paramRefText(r *admissionregistrationv1.ParamRef) string {
	switch {
	case r == nil:
		return cell.Unset
	case r.Name != "" && r.Namespace != "":
		return r.Namespace + "/" + r.Name
	case r.Name != "":
		return "*/" + r.Name
	case r.Selector != nil:
		return r.Selector.String()
	}
	return cell.Unset
}

// defaultMatch fills in that a policy matches objects of all namespaces and labels, and requests by which other versions of a resource
// are changed: who guards a resource means it in each version.
func defaultMatch(m *admissionregistrationv1.MatchResources) {
	if m == nil {
		return
	}
	rule.Fill(&m.MatchPolicy, admissionregistrationv1.Equivalent)
	rule.Fill(&m.NamespaceSelector, metav1.LabelSelector{})
	rule.Fill(&m.ObjectSelector, metav1.LabelSelector{})
	for i := range m.ResourceRules {
		rule.Fill(&m.ResourceRules[i].Scope, admissionregistrationv1.AllScopes)
	}
	for i := range m.ExcludeResourceRules {
		rule.Fill(&m.ExcludeResourceRules[i].Scope, admissionregistrationv1.AllScopes)
	}
}
