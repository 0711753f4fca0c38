package causes

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// budgetsWouldCollide: a pod has several budgets, and nobody has tried to evict it yet.
func budgetsWouldCollide(l *converge.Look) *converge.Finding {
	b := l.Obj.(*policyv1.PodDisruptionBudget)
	other, p := health.TwinOf(l.World, b)
	if other == "" {
		return nil
	}
	return &converge.Finding{Says: "is not the only budget of pod/" + p.Name + ": poddisruptionbudget/" + other +
		" selects it too, and a pod with several can't be evicted", Owner: converge.Person, State: converge.Latent,
		Waits: l.Field("spec.selector"), Next: converge.PersonDoes("leaves the pod to one budget"),
		Advice: []string{"delete one of them, or let them select different pods: kubectl get pdb -n " + b.Namespace + " -o wide"}}
}

// drainWouldWait: somebody cordoned a node, and whoever drains it waits for the budget.
func drainWouldWait(l *converge.Look) *converge.Finding {
	b := l.Obj.(*policyv1.PodDisruptionBudget)
	p := health.Stays(l.World, b)
	if p == nil {
		return nil
	}
	f := &converge.Finding{Says: fmt.Sprintf("keeps pod/%s on node %s, which is cordoned: %d of its pods are healthy and %d must be; "+
		"whether somebody drains the node is not known here", p.Name, p.Spec.NodeName, b.Status.CurrentHealthy, b.Status.DesiredHealthy),
		Owner: converge.Person, State: converge.Latent,
		Waits: l.Field("status.disruptionsAllowed"),
		Next:  converge.PersonDoes("makes more pods, or has the budget allow one less"),
		Advice: []string{scaledUp(l.World, p),
			"or lower minAvailable, or raise maxUnavailable: kubectl edit pdb " + converge.Called(l)}}
	for _, p := range health.Guarded(l.World, b) {
		if !l.Health(kinds.Pods, p).Converged() {
			f.State, f.Below = converge.Waiting, append(f.Below, converge.RefTo(kinds.Pods, p))
		}
	}
	letIll(f, b)
	return f
}

// letIll advises, where pods that are not well use up a budget's room, to let those go.
func letIll(f *converge.Finding, b *policyv1.PodDisruptionBudget) {
	if len(f.Below) > 0 && ptr.Deref(b.Spec.UnhealthyPodEvictionPolicy, "") != policyv1.AlwaysAllow {
		f.Advice, f.Also = nil, append(f.Also, "let pods that are not ready be evicted meanwhile: kubectl patch pdb "+b.Name+" -n "+
			b.Namespace+` -p '{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}'`)
	}
}

// LetGo is the command that has one pod more made of the first that budgets keep on a node; "": none of them is kept.
func LetGo(w *converge.World, n *corev1.Node) string {
	for _, b := range resource.List(w.Read, kinds.PodDisruptionBudgets, "") {
		for _, p := range health.Guarded(w, b) {
			if b.Status.DisruptionsAllowed == 0 && p.Spec.NodeName == n.Name && w.Health(kinds.Pods, p).Converged() {
				return Grown(w, p)
			}
		}
	}
	return ""
}

// KeptThere names the budgets that keep pods on a node from which they are to go.
func KeptThere(w *converge.World, n *corev1.Node) string {
	var kept []string
	for _, b := range resource.List(w.Read, kinds.PodDisruptionBudgets, "") {
		if b.Status.DisruptionsAllowed > 0 {
			continue
		}
		guarded := health.Guarded(w, b)
		there := slices.DeleteFunc(slices.Clone(guarded), func(p *corev1.Pod) bool { return p.Spec.NodeName != n.Name })
		if len(there) == 0 {
			continue
		}
		ill := ""
		for _, p := range guarded {
			if !w.Health(kinds.Pods, p).Converged() {
				ill = ", whose pod/" + p.Name + " is not well"
			}
		}
		for _, p := range there {
			kept = append(kept, b.Namespace+": pod/"+p.Name+" by poddisruptionbudget/"+b.Name+ill)
		}
	}
	if len(kept) == 0 {
		return ""
	}
	slices.Sort(kept)
	return "budgets let none of these pods go: " + words.List(kept, 3)
}
