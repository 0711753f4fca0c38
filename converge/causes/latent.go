package causes

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// latents have what will stand in the way, and nobody notices until it does.
func latents() []converge.Situation {
	return append([]converge.Situation{{Name: "NeverDue", Of: []resource.Kind{kinds.CronJobs}, See: neverDue}}, hooks()...)
}

// hooks are those of webhooks.
func hooks() []converge.Situation {
	of := []resource.Kind{kinds.ValidatingWebhookConfigurations, kinds.MutatingWebhookConfigurations}
	return []converge.Situation{{Name: "WebhookDown", Of: of, See: webhookUnserved}, {Name: "WebhookAsksForAll", Of: of,
		See: webhookForAll}}
}

// neverDue is a schedule that parses and names no day there is, as 30 February: the API takes it, and nothing ever happens.
func neverDue(l *converge.Look) *converge.Finding {
	c := l.Obj.(*batchv1.CronJob)
	if !health.Never(c, l.Now) {
		return nil
	}
	return &converge.Finding{Says: "is never due: no day is one of its schedule " + c.Spec.Schedule, Owner: converge.Person,
		State:  converge.Blocked,
		Waits:  converge.On("Field", converge.RefTo(l.Kind, c), "spec.schedule"),
		Next:   converge.Does(converge.Person, "corrects spec.schedule (minute, hour, day of the month, month, day of the week)"),
		Advice: []string{"kubectl patch cronjob " + c.Name + " -n " + c.Namespace + ` -p '{"spec":{"schedule":"0 0 1 * *"}}'`}}
}

// budgetNeverAllows is latent: all is well until somebody drains a node. Where somebody does, evictionBlocked speaks in its place.
func budgetNeverAllows(l *converge.Look) *converge.Finding {
	b := l.Obj.(*policyv1.PodDisruptionBudget)
	if p, _ := health.WantedAway(l.World, b); p != nil || health.NeverAllows(b).Converged() {
		return nil
	}
	pods := fmt.Sprintf("%d of %d pods", b.Status.DesiredHealthy, b.Status.ExpectedPods)
	f := &converge.Finding{Says: "lets none of its pods go: " + health.RefusesAll(b) + " keeps " + pods +
		", so that no node with one of them can be drained",
		Owner: converge.Person, State: converge.Latent,
		Waits: converge.On("Field", converge.RefTo(l.Kind, b), "spec."+strings.Split(health.RefusesAll(b), "=")[0]),
		Next:  converge.Does(converge.Person, "lets one pod go, or lives with it")}
	f.Advice = []string{"kubectl patch pdb " + b.Name + " -n " + b.Namespace +
		` --type=merge -p '{"spec":{"minAvailable":null,"maxUnavailable":1}}'`}
	if b.Spec.MinAvailable != nil && b.Status.ExpectedPods == 1 {
		f.Advice = append(f.Advice, "or have two pods: the workload has one alone")
	}
	return f
}

// webhookUnserved is said of the configuration, before any object is refused: with failurePolicy Fail all that it matches will be.
func webhookUnserved(l *converge.Look) *converge.Finding {
	for _, h := range health.HooksOf(l.Obj) {
		if !h.Closed || !h.Down(l.World) {
			continue
		}
		r := converge.Ref{Kind: kinds.Services, NS: h.Ref.Namespace, Name: h.Ref.Name}
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

// webhookForAll is latent: a webhook that must agree to everything also stands between its own server and being started again.
func webhookForAll(l *converge.Look) *converge.Finding {
	for _, h := range health.HooksOf(l.Obj) {
		if h.Closed && h.All {
			return &converge.Finding{Says: "has the webhook " + h.Name +
				" asked about every object in every namespace: while its server is down nothing can be written, " +
				"not even what would bring it back",
				Owner: converge.Person, State: converge.Latent,
				Waits: converge.On("Field", converge.RefTo(l.Kind, l.Obj), "webhooks["+h.Name+"].namespaceSelector"),
				Next:  converge.Does(converge.Person, "narrows it, or lives with it"),
				Advice: []string{"leave out kube-system and the webhook's own namespace by a namespaceSelector: kubectl edit " +
					new(converge.ObjectOf(l.Kind,
						l.Obj)).Short(), "or let requests pass while it is down: failurePolicy: Ignore"}}
		}
	}
	return nil
}
