package health

import (
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	kindsbatch "github.com/kloop-dev/kloop/kinds/batch"
	"github.com/kloop-dev/kloop/resource"
)

// Converter is the service that converts a definition's objects, if it has several versions and a service that does.
func Converter(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.ServiceReference {
	c := d.Spec.Conversion
	if c == nil || c.Strategy != apiextensionsv1.WebhookConverter || c.Webhook == nil || c.Webhook.ClientConfig == nil ||
		len(d.Spec.Versions) < 2 {
		return nil
	}
	return c.Webhook.ClientConfig.Service
}

// Unconverted says that the service that converts a definition's objects is not there, or leads nowhere.
func Unconverted(w *converge.World, d *apiextensionsv1.CustomResourceDefinition) bool {
	ref := Converter(d)
	if ref == nil {
		return false
	}
	s := resource.Get(w.Read, kinds.Services, ref.Namespace, ref.Name)
	if s == nil {
		return true
	}
	rests, _ := RestOfService(w, s)
	return !serviceHealth(w, s).Converged() || strings.HasPrefix(rests, "leads nowhere")
}

// Never says that a cron job has a schedule that no day has: the 30th of February. One that has run has had its day.
func Never(c *batchv1.CronJob, now time.Time) bool {
	if c.Status.LastScheduleTime != nil || c.Status.LastSuccessfulTime != nil || strings.HasPrefix(c.Spec.Schedule, "@") {
		return false
	}
	zone := time.UTC
	if name := ptr.Deref(c.Spec.TimeZone, ""); name != "" {
		if in, err := time.LoadLocation(name); err == nil {
			zone = in
		}
	}
	s, err := kindsbatch.ParseSchedule(c.Spec.Schedule, zone)
	return err == nil && s.Next(now).IsZero()
}

// RefusesAll says of a budget that no number of healthy pods lets one go, and by which of its fields.
func RefusesAll(b *policyv1.PodDisruptionBudget) (field string) {
	is := func(v *intstr.IntOrString, texts ...string) bool {
		return v != nil && slices.Contains(texts, v.String())
	}
	switch {
	case is(b.Spec.MaxUnavailable, "0", "0%"):
		return "maxUnavailable=" + b.Spec.MaxUnavailable.String()
	case is(b.Spec.MinAvailable, "100%"):
		return "minAvailable=100%"
	case b.Spec.MinAvailable != nil && b.Spec.MinAvailable.Type == intstr.Int && b.Status.ExpectedPods > 0 &&
		b.Spec.MinAvailable.IntVal >= b.Status.ExpectedPods:
		return "minAvailable=" + b.Spec.MinAvailable.String()
	}
	return ""
}

// NeverAllows is the gap of a budget that guards pods and lets none go, however healthy they are.
func NeverAllows(b *policyv1.PodDisruptionBudget) converge.Health {
	field := RefusesAll(b)
	if field == "" || b.Status.ExpectedPods == 0 || b.Status.ObservedGeneration < b.Generation {
		return converge.Health{}
	}
	return converge.Health{Says: "lets none of its pods go, ever", Want: "status.disruptionsAllowed>0", Have: "spec." + field}
}

// A Hook has what matters here of a webhook of either kind.
type Hook struct {
	Name   string
	Closed bool // refuses what it can't be asked about
	All    bool // is asked about everything, in all namespaces
	Ref    *admissionregistrationv1.ServiceReference
}

// HooksOf are the webhooks of a configuration.
func HooksOf(obj resource.Object) (list []Hook) {
	add := func(name string, policy *admissionregistrationv1.FailurePolicyType, rules []admissionregistrationv1.RuleWithOperations,
		narrowed bool, c *admissionregistrationv1.WebhookClientConfig) {
		all := !narrowed && slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return slices.Contains(r.APIGroups, "*") && slices.ContainsFunc(r.Resources, func(s string) bool {
				return s == "*" ||
					s == "*/*"
			}) &&
				ptr.Deref(r.Scope, admissionregistrationv1.AllScopes) == admissionregistrationv1.AllScopes
		})
		list = append(list, Hook{name, ptr.Deref(policy, admissionregistrationv1.Fail) == admissionregistrationv1.Fail, all, c.Service})
	}
	switch c := obj.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			h := &c.Webhooks[i]
			add(h.Name, h.FailurePolicy, h.Rules, narrows(h.NamespaceSelector, h.ObjectSelector) || len(h.MatchConditions) > 0,
				&h.ClientConfig)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			h := &c.Webhooks[i]
			add(h.Name, h.FailurePolicy, h.Rules, narrows(h.NamespaceSelector, h.ObjectSelector) || len(h.MatchConditions) > 0,
				&h.ClientConfig)
		}
	}
	return list
}

// narrows says that selectors leave something out.
func narrows(list ...*metav1.LabelSelector) bool {
	return slices.ContainsFunc(list, func(s *metav1.LabelSelector) bool {
		return s != nil &&
			len(s.MatchLabels)+len(s.MatchExpressions) > 0
	})
}

// webhooksHealth finds a gap in a configuration of which a webhook refuses everything now, or would as soon as it is down.
func webhooksHealth(w *converge.World, obj resource.Object) converge.Health {
	for _, h := range HooksOf(obj) {
		switch {
		case !h.Closed:
		case h.Down(w):
			return converge.Health{Says: "refuses what it is to be asked about",
				Want: "webhooks[" + h.Name + "] answered by service " + h.Ref.Namespace + "/" + h.Ref.Name,
				Have: "no endpoint that takes connections"}
		case h.All:
			return converge.Health{Says: "is asked about everything, and refuses what it can't be asked about",
				Want: "webhooks[" + h.Name + "] narrowed by a selector", Have: "failurePolicy=Fail, and no selector"}
		}
	}
	return converge.Health{}
}

// Down says that nobody can answer: the service is not there, or leads nowhere.
func (h Hook) Down(w *converge.World) bool {
	if h.Ref == nil {
		return false
	}
	s := resource.Get(w.Read, kinds.Services, h.Ref.Namespace, h.Ref.Name)
	return s == nil && w.Sees(kinds.Services, h.Ref.Namespace) || s != nil && !serviceHealth(w, s).Converged()
}
