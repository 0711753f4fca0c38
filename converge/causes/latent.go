package causes

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// latents have what will stand in the way, and nobody notices until it does.
func latents() []converge.Situation {
	return append([]converge.Situation{{Name: "NeverDue", Of: []resource.Kind{kinds.CronJobs}, See: neverDue}}, general.Hooks()...)
}

// neverDue is a schedule that parses and names no day there is, as 30 February: the API takes it, and nothing ever happens.
func neverDue(l *converge.Look) *converge.Finding {
	c := l.Obj.(*batchv1.CronJob)
	if !health.Never(c, l.Now) {
		return nil
	}
	return &converge.Finding{Says: "is never due: no day is one of its schedule " + c.Spec.Schedule, Owner: converge.Person,
		State:  converge.Blocked,
		Waits:  l.Field("spec.schedule"),
		Next:   converge.PersonDoes("corrects spec.schedule (minute, hour, day of the month, month, day of the week)"),
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
		Waits: l.Field("spec." + strings.Split(health.RefusesAll(b), "=")[0]),
		Next:  converge.PersonDoes("lets one pod go, or lives with it")}
	f.Advice = []string{"kubectl patch pdb " + b.Name + " -n " + b.Namespace +
		` --type=merge -p '{"spec":{"minAvailable":null,"maxUnavailable":1}}'`}
	if b.Spec.MinAvailable != nil && b.Status.ExpectedPods == 1 {
		f.Advice = append(f.Advice, "or have two pods: the workload has one alone")
	}
	return f
}
