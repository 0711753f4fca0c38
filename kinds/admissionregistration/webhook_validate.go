package admissionregistration

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// checkHook checks a webhook, in upstream's order. If what is stored already speaks review versions unknown here, it may go on so. names
// are those of the webhooks before it.
func checkHook(w admissionregistrationv1.ValidatingWebhook, again *admissionregistrationv1.ReinvocationPolicyType, unknown bool,
	names map[string]bool, path *field.Path) (errs field.ErrorList) {
	add := func(list field.ErrorList) { errs = append(errs, list...) }
	add(validation.IsFullyQualifiedName(path.Child("name"), w.Name))
	for i, r := range w.Rules {
		add(ruleWithOperations(r, path.Child("rules").Index(i)))
	}
	add(rule.AmongPtr(w.FailurePolicy, path.Child("failurePolicy"), admissionregistrationv1.Fail, admissionregistrationv1.Ignore))
	add(rule.AmongPtr(w.MatchPolicy, path.Child("matchPolicy"), admissionregistrationv1.Exact, admissionregistrationv1.Equivalent))
	if w.SideEffects == nil {
		add(field.ErrorList{field.Required(path.Child("sideEffects"), "must specify one of None, NoneOnDryRun")})
	}
	add(rule.AmongPtr(w.SideEffects, path.Child("sideEffects"), admissionregistrationv1.SideEffectClassNone,
		admissionregistrationv1.SideEffectClassNoneOnDryRun))
	if w.TimeoutSeconds != nil && (*w.TimeoutSeconds > 30 || *w.TimeoutSeconds < 1) {
		add(field.ErrorList{field.Invalid(path.Child("timeoutSeconds"), *w.TimeoutSeconds, "the timeout value must be between 1 and 30 seconds")})
	}
	add(rule.Selector(w.NamespaceSelector, path.Child("namespaceSelector")))
	add(rule.Selector(w.ObjectSelector, path.Child("objectSelector")))
	add(rule.AmongPtr(again, path.Child("reinvocationPolicy"), admissionregistrationv1.NeverReinvocationPolicy,
		admissionregistrationv1.IfNeededReinvocationPolicy))
	add(clientConfig(w.ClientConfig, path.Child("clientConfig")))
	add(matchConditions(false, w.MatchConditions, path.Child("matchConditions")))
	add(reviewVersions(w.AdmissionReviewVersions, unknown, path.Child("admissionReviewVersions")))
	if w.Name != "" && names[w.Name] {
		add(field.ErrorList{field.Duplicate(path.Child("name"), w.Name)})
	}
	names[w.Name] = true
	return errs
}

func clientConfig(c admissionregistrationv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case c.URL != nil:
		return rule.WebhookURL(*c.URL, path.Child("url"))
	}
	// Upstream passes these two in the other order, so the error of a missing one has the other's path.
	return rule.WebhookService(c.Service.Name, c.Service.Namespace, c.Service.Path, c.Service.Port, path.Child("service"))
}

// reviewVersions are the forms of AdmissionReview that a webhook understands, the best first. One that kloop speaks must be among them,
// unless that was so when it was stored (unknown).
func reviewVersions(list []string, unknown bool, path *field.Path) (errs field.ErrorList) {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of v1, v1beta1")}
	}
	seen := sets.New[string]()
	for i, v := range list {
		if seen.Has(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		seen.Insert(v)
		errs = append(errs, rule.Format(v, path.Index(i), validation.IsDNS1035Label)...)
	}
	if !unknown && !known(list) {
		errs = append(errs, field.Invalid(path, list, "must include at least one of v1, v1beta1"))
	}
	return errs
}

// known reports whether this server speaks one of the versions; none at all is another matter.
func known(versions []string) bool {
	return len(versions) == 0 || slices.Contains(versions, "v1") || slices.Contains(versions, "v1beta1")
}

// ruleWithOperations says which requests are sent to the hook. A star stands alone, or the other words would mean nothing.
func ruleWithOperations(r admissionregistrationv1.RuleWithOperations, path *field.Path) (errs field.ErrorList) {
	ops := path.Child("operations")
	switch {
	case len(r.Operations) == 0:
		errs = append(errs, field.Required(ops, ""))
	case len(r.Operations) > 1 && slices.Contains(r.Operations, admissionregistrationv1.OperationAll):
		errs = append(errs, field.Invalid(ops, r.Operations, "if '*' is present, must not specify other operations"))
	}
	for i, o := range r.Operations {
		errs = append(errs, rule.Among(o, ops.Index(i), admissionregistrationv1.OperationAll, admissionregistrationv1.Create,
			admissionregistrationv1.Update, admissionregistrationv1.Delete, admissionregistrationv1.Connect)...)
	}
	errs = append(errs, wildcards(r.APIGroups, path.Child("apiGroups"), "API groups", false)...)
	errs = append(errs, wildcards(r.APIVersions, path.Child("apiVersions"), "API versions", true)...)
	errs = append(errs, resources(r.Resources, path.Child("resources"))...)
	return append(errs, rule.AmongPtr(r.Scope, path.Child("scope"), admissionregistrationv1.ClusterScope,
		admissionregistrationv1.NamespacedScope, admissionregistrationv1.AllScopes)...)
}

// wildcards checks a list in which * stands alone.
func wildcards(list []string, path *field.Path, others string, named bool) (errs field.ErrorList) {
	switch {
	case len(list) == 0:
		errs = append(errs, field.Required(path, ""))
	case len(list) > 1 && slices.Contains(list, "*"):
		errs = append(errs, field.Invalid(path, list, "if '*' is present, must not specify other "+others))
	}
	for i, v := range list {
		if named && v == "" {
			errs = append(errs, field.Required(path.Index(i), ""))
		}
	}
	return errs
}
