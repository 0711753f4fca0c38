package general

import (
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/admissionregistration"
	"github.com/kloop-dev/kloop/kinds/core"
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
	s := resource.Get(w.Read, core.Services, ref.Namespace, ref.Name)
	if s == nil {
		return true
	}
	rests, _ := RestOfService(w, s)
	return !ServiceHealth(w, s).Converged() || strings.HasPrefix(rests, "leads nowhere")
}

// A Hook has what matters here of a webhook of either kind.
type Hook struct {
	Name   string
	Closed bool // refuses what it can't be asked about
	All    bool // is asked about everything, in all namespaces
	Ref    *admissionregistrationv1.ServiceReference

	rules []admissionregistrationv1.RuleWithOperations
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
		list = append(list, Hook{name, ptr.Deref(policy, admissionregistrationv1.Fail) == admissionregistrationv1.Fail, all, c.Service,
			rules})
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

// barring is the webhook that refuses every change of objects of a kind, since nobody answers behind it, and the configuration that it is
// of; "" where there is none.
func barring(w *converge.World, of resource.Kind) (hook, config string) {
	for _, k := range []resource.Kind{admissionregistration.ValidatingWebhookConfigurations,
		admissionregistration.MutatingWebhookConfigurations} {
		for obj := range w.Read.Each(k, "") {
			for _, h := range HooksOf(obj) {
				if h.Closed && slices.ContainsFunc(h.rules, func(r admissionregistrationv1.RuleWithOperations) bool {
					return changes(&r, of)
				}) && h.Down(w) {
					return h.Name, new(converge.ObjectOf(k, obj)).Short()
				}
			}
		}
	}
	return "", ""
}

// changes says that a rule is for updates of objects of a kind.
func changes(r *admissionregistrationv1.RuleWithOperations, of resource.Kind) bool {
	has := func(list []string, name string) bool {
		return slices.Contains(list, name) || slices.Contains(list, "*")
	}
	return has(r.APIGroups, of.Info().GVK.Group) && has(r.Resources, of.Info().Plural) &&
		slices.ContainsFunc(r.Operations, func(o admissionregistrationv1.OperationType) bool {
			return o == admissionregistrationv1.Update || o == admissionregistrationv1.OperationAll
		})
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
	s := resource.Get(w.Read, core.Services, h.Ref.Namespace, h.Ref.Name)
	return s == nil && w.Sees(core.Services, h.Ref.Namespace) || s != nil && !ServiceHealth(w, s).Converged()
}

// Hooks are those of webhooks.
func Hooks() []converge.Situation {
	of := []resource.Kind{admissionregistration.ValidatingWebhookConfigurations, admissionregistration.MutatingWebhookConfigurations}
	return []converge.Situation{{Name: "WebhookDown", Of: of, See: webhookUnserved}, {Name: "WebhookAsksForAll", Of: of,
		See: webhookForAll}}
}

// webhookUnserved is said of the configuration, before any object is refused: with failurePolicy Fail all that it matches will be.
func webhookUnserved(l *converge.Look) *converge.Finding {
	for _, h := range HooksOf(l.Obj) {
		if !h.Closed || !h.Down(l.World) {
			continue
		}
		r := converge.Ref{Kind: core.Services, NS: h.Ref.Namespace, Name: h.Ref.Name}
		name := new(converge.ObjectOf(l.Kind, l.Obj)).Short()
		return &converge.Finding{Says: "refuses all that the webhook " + h.Name +
			" is to be asked about: nobody answers behind service " + r.NS + "/" +
			r.Name, Owner: "the server behind " + r.NS + "/" + r.Name, State: converge.Blocked,
			Waits: converge.On("Object", r, ""), Next: converge.Does("the server behind "+r.NS+"/"+r.Name, "answers when it runs"),
			Below: []converge.Ref{r},
			Advice: []string{"bring the pods behind it back: kubectl get pods -n " + r.NS, "if it is no longer used: kubectl delete " +
				name}}
	}
	return nil
}

// spared is the command that has a webhook not be asked about the cluster's own namespace, and that of its server.
func (h Hook) spared(l *converge.Look) string {
	out := []string{"kube-system"}
	if h.Ref != nil && h.Ref.Namespace != out[0] {
		out = append(out, h.Ref.Namespace)
	}
	at := slices.IndexFunc(HooksOf(l.Obj), func(o Hook) bool { return o.Name == h.Name })
	return converge.Patched(converge.RefTo(l.Kind, l.Obj), converge.Add("/webhooks/"+strconv.Itoa(at)+"/namespaceSelector",
		metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName,
			Operator: metav1.LabelSelectorOpNotIn, Values: out}}}))
}

// webhookForAll is latent: a webhook that must agree to everything also stands between its own server and being started again.
func webhookForAll(l *converge.Look) *converge.Finding {
	for _, h := range HooksOf(l.Obj) {
		if h.Closed && h.All {
			return &converge.Finding{Says: "has the webhook " + h.Name +
				" asked about every object in every namespace: while its server is down nothing can be written, " +
				"not even what would bring it back",
				Owner: converge.Person, State: converge.Latent,
				Waits: converge.On("Field", converge.RefTo(l.Kind, l.Obj), "webhooks["+h.Name+"].namespaceSelector"),
				Next:  converge.PersonDoes("narrows it, or lives with it"),
				Advice: []string{"leave out kube-system and the webhook's own namespace by a namespaceSelector: " + h.spared(l),
					"or let requests pass while it is down: failurePolicy: Ignore"}}
		}
	}
	return nil
}
