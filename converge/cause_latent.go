package converge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	kindsbatch "github.com/kloop-dev/kloop/kinds/batch"
	"github.com/kloop-dev/kloop/resource"
)

// Latent is the state of what is stuck only when somebody asks for it: nothing is wrong yet.
const Latent = "Latent"

// latents have what will stand in the way, and nobody notices until it does.
func latents() []Situation {
	return append([]Situation{{"NeverDue", []resource.Kind{kinds.CronJobs}, neverDue}}, hooks()...)
}

// hooks are those of webhooks.
func hooks() []Situation {
	of := []resource.Kind{kinds.ValidatingWebhookConfigurations, kinds.MutatingWebhookConfigurations}
	return []Situation{{"WebhookDown", of, webhookUnserved}, {"WebhookAsksForAll", of, webhookForAll}}
}

// never says that a cron job has a schedule that no day has: the 30th of February. One that has run has had its day.
func never(c *batchv1.CronJob, now time.Time) bool {
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

// neverDue is a schedule that parses and names no day there is, as 30 February: the API takes it, and nothing ever happens.
func neverDue(l *look) *Finding {
	c := l.obj.(*batchv1.CronJob)
	if !never(c, l.Now) {
		return nil
	}
	return &Finding{Says: "is never due: no day is one of its schedule " + c.Spec.Schedule, Owner: person, State: Blocked,
		Waits:  on("Field", refTo(l.kind, c), "spec.schedule"),
		Next:   does(person, "corrects spec.schedule (minute, hour, day of the month, month, day of the week)"),
		Advice: []string{"kubectl patch cronjob " + c.Name + " -n " + c.Namespace + ` -p '{"spec":{"schedule":"0 0 1 * *"}}'`}}
}

// refusesAll says of a budget that no number of healthy pods lets one go, and by which of its fields.
func refusesAll(b *policyv1.PodDisruptionBudget) (field string) {
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

// neverAllows is the gap of a budget that guards pods and lets none go, however healthy they are.
func neverAllows(b *policyv1.PodDisruptionBudget) Health {
	field := refusesAll(b)
	if field == "" || b.Status.ExpectedPods == 0 || b.Status.ObservedGeneration < b.Generation {
		return Health{}
	}
	return Health{Says: "lets none of its pods go, ever", Want: "status.disruptionsAllowed>0", Have: "spec." + field}
}

// budgetNeverAllows is latent: all is well until somebody drains a node. Where somebody does, evictionBlocked speaks in its place.
func budgetNeverAllows(l *look) *Finding {
	b := l.obj.(*policyv1.PodDisruptionBudget)
	if p, _ := wantedAway(l.World, b); p != nil || neverAllows(b).Converged() {
		return nil
	}
	pods := fmt.Sprintf("%d of %d pods", b.Status.DesiredHealthy, b.Status.ExpectedPods)
	f := &Finding{Says: "lets none of its pods go: " + refusesAll(b) + " keeps " + pods + ", so that no node with one of them can be drained",
		Owner: person, State: Latent,
		Waits: on("Field", refTo(l.kind, b), "spec."+strings.Split(refusesAll(b), "=")[0]),
		Next:  does(person, "lets one pod go, or lives with it")}
	f.Advice = []string{"kubectl patch pdb " + b.Name + " -n " + b.Namespace +
		` --type=merge -p '{"spec":{"minAvailable":null,"maxUnavailable":1}}'`}
	if b.Spec.MinAvailable != nil && b.Status.ExpectedPods == 1 {
		f.Advice = append(f.Advice, "or have two pods: the workload has one alone")
	}
	return f
}

// A hook has what matters here of a webhook of either kind.
type hook struct {
	name   string
	closed bool // refuses what it can't be asked about
	all    bool // is asked about everything, in all namespaces
	ref    *admissionregistrationv1.ServiceReference
}

// hooksOf are the webhooks of a configuration.
func hooksOf(obj resource.Object) (list []hook) {
	add := func(name string, policy *admissionregistrationv1.FailurePolicyType, rules []admissionregistrationv1.RuleWithOperations,
		narrowed bool, c *admissionregistrationv1.WebhookClientConfig) {
		all := !narrowed && slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return slices.Contains(r.APIGroups, "*") && slices.ContainsFunc(r.Resources, func(s string) bool { return s == "*" || s == "*/*" }) &&
				ptr.Deref(r.Scope, admissionregistrationv1.AllScopes) == admissionregistrationv1.AllScopes
		})
		list = append(list, hook{name, ptr.Deref(policy, admissionregistrationv1.Fail) == admissionregistrationv1.Fail, all, c.Service})
	}
	switch c := obj.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			h := &c.Webhooks[i]
			add(h.Name, h.FailurePolicy, h.Rules, narrows(h.NamespaceSelector, h.ObjectSelector) || len(h.MatchConditions) > 0, &h.ClientConfig)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			h := &c.Webhooks[i]
			add(h.Name, h.FailurePolicy, h.Rules, narrows(h.NamespaceSelector, h.ObjectSelector) || len(h.MatchConditions) > 0, &h.ClientConfig)
		}
	}
	return list
}

// narrows says that selectors leave something out.
func narrows(list ...*metav1.LabelSelector) bool {
	return slices.ContainsFunc(list, func(s *metav1.LabelSelector) bool { return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 })
}

// webhooksHealth finds a gap in a configuration of which a webhook refuses everything now, or would as soon as it is down.
func webhooksHealth(w *World, obj resource.Object) Health {
	for _, h := range hooksOf(obj) {
		switch {
		case !h.closed:
		case h.down(w):
			return Health{Says: "refuses what it is to be asked about",
				Want: "webhooks[" + h.name + "] answered by service " + h.ref.Namespace + "/" + h.ref.Name, Have: "no endpoint that takes connections"}
		case h.all:
			return Health{Says: "is asked about everything, and refuses what it can't be asked about",
				Want: "webhooks[" + h.name + "] narrowed by a selector", Have: "failurePolicy=Fail, and no selector"}
		}
	}
	return Health{}
}

// down says that nobody can answer: the service is not there, or leads nowhere.
func (h hook) down(w *World) bool {
	if h.ref == nil {
		return false
	}
	s := resource.Get(w.Read, kinds.Services, h.ref.Namespace, h.ref.Name)
	return s == nil && w.Sees(kinds.Services, h.ref.Namespace) || s != nil && !serviceHealth(w, s).Converged()
}

// webhookUnserved is said of the configuration, before any object is refused: with failurePolicy Fail all that it matches will be.
func webhookUnserved(l *look) *Finding {
	for _, h := range hooksOf(l.obj) {
		if !h.closed || !h.down(l.World) {
			continue
		}
		r := Ref{kinds.Services, h.ref.Namespace, h.ref.Name}
		name := new(objectOf(l.kind, l.obj)).Short()
		return &Finding{Says: "refuses all that the webhook " + h.name + " is to be asked about: nobody answers behind service " + r.NS + "/" +
			r.Name, Owner: "the server behind " + r.NS + "/" + r.Name, State: Blocked,
			Waits: on("Object", r, ""), Next: does("the server behind "+r.NS+"/"+r.Name, "answers when it runs"), Below: []Ref{r},
			Advice: []string{"bring the pods behind it back: kubectl get pods -n " + r.NS, "if it is no longer used: kubectl delete " + name}}
	}
	return nil
}

// webhookForAll is latent: a webhook that must agree to everything also stands between its own server and being started again.
func webhookForAll(l *look) *Finding {
	for _, h := range hooksOf(l.obj) {
		if h.closed && h.all {
			return &Finding{Says: "has the webhook " + h.name +
				" asked about every object in every namespace: while its server is down nothing can be written, not even what would bring it back",
				Owner: person, State: Latent,
				Waits: on("Field", refTo(l.kind, l.obj), "webhooks["+h.name+"].namespaceSelector"), Next: does(person, "narrows it, or lives with it"),
				Advice: []string{"leave out kube-system and the webhook's own namespace by a namespaceSelector: kubectl edit " + new(objectOf(l.kind,
					l.obj)).Short(), "or let requests pass while it is down: failurePolicy: Ignore"}}
		}
	}
	return nil
}
