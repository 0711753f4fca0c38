package causes

import (
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// budgets are the ways in which a disruption budget stands in somebody's way.
func budgets() []converge.Situation {
	of := []resource.Kind{kinds.PodDisruptionBudgets}
	return []converge.Situation{{Name: "BudgetNotCounted", Of: of, See: budgetNotCounted}, {Name: "BudgetsCollide", Of: of,
		See: budgetsCollide},
		{Name: "EvictionBlocked", Of: of, See: evictionBlocked},
		{Name: "BudgetNeverAllows", Of: of, See: budgetNeverAllows}, {Name: "BudgetsCollide", Of: of, See: budgetsWouldCollide},
		{Name: "EvictionBlocked", Of: of, See: drainWouldWait}}
}

// budgetsCollide: a pod has several budgets, and then it can't be evicted, whatever they allow.
func budgetsCollide(l *converge.Look) *converge.Finding {
	b := l.Obj.(*policyv1.PodDisruptionBudget)
	p, r := health.WantedAway(l.World, b)
	if p == nil || !words.SeveralBudgets(r.Message) {
		return nil
	}
	f := &converge.Finding{Says: "is not the only budget of pod/" + p.Name + ", and a pod with several can't be evicted",
		Owner: converge.Person, State: converge.Blocked,
		Error: r.Failure(), Waits: l.Field("spec.selector"),
		Next:   converge.PersonDoes("leaves the pod to one budget"),
		Advice: []string{"delete one of them, or let them select different pods: kubectl get pdb -n " + b.Namespace + " -o wide"}}
	for _, other := range resource.List(l.Read, kinds.PodDisruptionBudgets, b.Namespace) {
		if sel, err := metav1.LabelSelectorAsSelector(other.Spec.Selector); err == nil && other.Name != b.Name &&
			sel.Matches(labels.Set(p.Labels)) {
			f.Says = "is not its only budget: poddisruptionbudget/" + other.Name +
				" selects it too, and a pod with several can't be evicted"
		}
	}
	return f
}

// evictionBlocked is a budget without room at which somebody was refused lately. Without such a refusal it is no gap: a budget that
// allows nothing just now rests until something is to go. Pods of its own that are ill use up its room, so they lie below.
func evictionBlocked(l *converge.Look) *converge.Finding {
	b := l.Obj.(*policyv1.PodDisruptionBudget)
	p, r := health.WantedAway(l.World, b)
	if p == nil {
		return nil
	}
	f := &converge.Finding{Says: "lets none of its pods go: " + r.Message, Owner: converge.Person, State: converge.Blocked,
		Error: r.Failure(),
		Waits: l.Field("status.disruptionsAllowed"),
		Next:  converge.PersonDoes("makes more pods, or has the budget allow one less"),
		Advice: []string{scaledUp(l.World, p),
			"or lower minAvailable, or raise maxUnavailable: kubectl edit pdb " + converge.Called(l)}}
	for _, p := range health.Guarded(l.World, b) {
		if !l.Health(kinds.Pods, p).Converged() {
			f.Below = append(f.Below, converge.RefTo(kinds.Pods, p))
		}
	}
	letIll(f, b)
	return f
}

// budgetNotCounted: the controller can't tell how many pods there should be, and so lets none go.
func budgetNotCounted(l *converge.Look) *converge.Finding {
	b := l.Obj.(*policyv1.PodDisruptionBudget)
	c := health.Uncounted(b)
	if c == nil {
		return nil
	}
	f := &converge.Finding{Says: "lets none of its pods go, since they can't be counted: " + words.OneLine(c.Message),
		State: converge.Blocked, Owner: converge.Person,
		Error: general.TextOnly(c.Message), Waits: l.Field("spec.selector"),
		Next: converge.PersonDoes("has it select pods that can be counted")}
	if strings.Contains(c.Message, "controller") {
		f.Advice = []string{"pods without a controller can only be counted against minAvailable as a number: kubectl patch pdb " +
			converge.Called(l) + ` --type=merge -p '{"spec":{"maxUnavailable":null,"minAvailable":1}}'`,
			"or have it select pods of a controller alone: kubectl get pods --show-labels -n " + b.Namespace}
	}
	return f
}
