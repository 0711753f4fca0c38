// Package admissionregistration declares the kinds that extend admission: webhooks and CEL policies.
package admissionregistration

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

func gvk(kind string) schema.GroupVersionKind {
	return admissionregistrationv1.SchemeGroupVersion.WithKind(kind)
}

var categories = []string{"api-extensions"}

// ValidatingWebhookConfigurations declares the kind.
var ValidatingWebhookConfigurations = &resource.Def[*admissionregistrationv1.ValidatingWebhookConfiguration]{
	GVK: gvk("ValidatingWebhookConfiguration"), Plural: "validatingwebhookconfigurations", Categories: categories, Generation: true,
	Quirks: resource.Quirks{NeedsRevision: true, MetaErrorsOnce: true, EmptyCounts: true, UnqualifiedFinalizers: true},
	Default: func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			defaultHook(hook{failure: &w.FailurePolicy, match: &w.MatchPolicy, timeout: &w.TimeoutSeconds,
				namespaces: &w.NamespaceSelector, objects: &w.ObjectSelector, client: &w.ClientConfig, rules: w.Rules})
		}
	},
	Gated: reserving(func(c, old *admissionregistrationv1.ValidatingWebhookConfiguration) (errs field.ErrorList) {
		unknown := old != nil && slices.ContainsFunc(old.Webhooks,
			func(w admissionregistrationv1.ValidatingWebhook) bool { return !known(w.AdmissionReviewVersions) })
		names := map[string]bool{}
		for i, w := range c.Webhooks {
			errs = append(errs, checkHook(w, nil, unknown, names, field.NewPath("webhooks").Index(i))...)
		}
		return errs
	}, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) (list []string) {
		for i, w := range c.Webhooks {
			list = append(list, idle(w.Rules, field.NewPath("webhooks").Index(i).Child("rules"))...)
		}
		return list
	}),
	Prepare: func(c, old *admissionregistrationv1.ValidatingWebhookConfiguration) {
		if old != nil && saidEmpty(c.Webhooks, old.Webhooks) {
			c.Generation++
		}
	},
	Columns: []resource.Column[*admissionregistrationv1.ValidatingWebhookConfiguration]{
		resource.Col("Webhooks", "integer",
			func(c *admissionregistrationv1.ValidatingWebhookConfiguration) any { return int64(len(c.Webhooks)) }),
		resource.Age[*admissionregistrationv1.ValidatingWebhookConfiguration](),
	},
}

// MutatingWebhookConfigurations declares the kind.
var MutatingWebhookConfigurations = &resource.Def[*admissionregistrationv1.MutatingWebhookConfiguration]{
	GVK: gvk("MutatingWebhookConfiguration"), Plural: "mutatingwebhookconfigurations", Categories: categories, Generation: true,
	Quirks: resource.Quirks{NeedsRevision: true, MetaErrorsOnce: true, EmptyCounts: true, UnqualifiedFinalizers: true},
	Default: func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			rule.Fill(&w.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
			defaultHook(hook{failure: &w.FailurePolicy, match: &w.MatchPolicy, timeout: &w.TimeoutSeconds,
				namespaces: &w.NamespaceSelector, objects: &w.ObjectSelector, client: &w.ClientConfig, rules: w.Rules})
		}
	},
	Gated: reserving(func(c, old *admissionregistrationv1.MutatingWebhookConfiguration) (errs field.ErrorList) {
		unknown := old != nil && slices.ContainsFunc(old.Webhooks,
			func(w admissionregistrationv1.MutatingWebhook) bool { return !known(w.AdmissionReviewVersions) })
		names := map[string]bool{}
		for i, w := range c.Webhooks {
			errs = append(errs, checkHook(asValidating(w), w.ReinvocationPolicy, unknown, names, field.NewPath("webhooks").Index(i))...)
		}
		return errs
	}, func(c *admissionregistrationv1.MutatingWebhookConfiguration) (list []string) {
		for i, w := range c.Webhooks {
			list = append(list, idle(w.Rules, field.NewPath("webhooks").Index(i).Child("rules"))...)
		}
		return list
	}),
	Prepare: func(c, old *admissionregistrationv1.MutatingWebhookConfiguration) {
		if old != nil && saidEmpty(c.Webhooks, old.Webhooks) {
			c.Generation++
		}
	},
	Columns: []resource.Column[*admissionregistrationv1.MutatingWebhookConfiguration]{
		resource.Col("Webhooks", "integer", func(c *admissionregistrationv1.MutatingWebhookConfiguration) any { return int64(len(c.Webhooks)) }),
		resource.Age[*admissionregistrationv1.MutatingWebhookConfiguration](),
	},
}

// saidEmpty says that an empty list was written where there was none before. To these kinds that is a change: upstream
// compares them so strictly.
func saidEmpty[W any](list, old []W) bool { return list != nil && len(list)+len(old) == 0 }

// asValidating returns what both kinds of webhooks have in common.
func asValidating(w admissionregistrationv1.MutatingWebhook) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules,
		FailurePolicy: w.FailurePolicy,
		MatchPolicy:   w.MatchPolicy, NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector,
		SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions,
		MatchConditions: w.MatchConditions}
}

// A hook points at the fields of a webhook that have defaults.
type hook struct {
	failure             **admissionregistrationv1.FailurePolicyType
	match               **admissionregistrationv1.MatchPolicyType
	timeout             **int32
	namespaces, objects **metav1.LabelSelector
	client              *admissionregistrationv1.WebhookClientConfig
	rules               []admissionregistrationv1.RuleWithOperations
}

// defaultHook fills in what upstream does for v1, the cautious choice each time: a hook that can't be asked refuses, it sees every
// version of what it guards, and is given ten seconds.
func defaultHook(h hook) {
	rule.Fill(h.failure, admissionregistrationv1.Fail)
	rule.Fill(h.match, admissionregistrationv1.Equivalent)
	rule.Fill(h.timeout, 10)
	rule.Fill(h.namespaces, metav1.LabelSelector{})
	rule.Fill(h.objects, metav1.LabelSelector{})
	if h.client.Service != nil {
		rule.Fill(&h.client.Service.Port, 443)
	}
	for i := range h.rules {
		rule.Fill(&h.rules[i].Scope, admissionregistrationv1.AllScopes)
	}
}
