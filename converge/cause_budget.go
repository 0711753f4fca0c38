package converge

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// budgets are the ways in which a disruption budget stands in somebody's way.
func budgets() []Situation {
	of := []resource.Kind{kinds.PodDisruptionBudgets}
	return []Situation{{"BudgetNotCounted", of, budgetNotCounted}, {"BudgetsCollide", of, budgetsCollide},
		{"EvictionBlocked", of, evictionBlocked},
		{"BudgetNeverAllows", of, budgetNeverAllows}, {"BudgetsCollide", of, budgetsWouldCollide}, {"EvictionBlocked", of, drainWouldWait}}
}

// drainFor is the time after a refused eviction in which somebody is still thought to want it: a drain tries every 5 s.
const drainFor = time.Minute

// guarded are the pods that a budget holds its hand over.
func guarded(w *World, b *policyv1.PodDisruptionBudget) (list []*corev1.Pod) {
	sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil
	}
	for _, p := range resource.List(w.Read, kinds.Pods, b.Namespace) {
		if sel.Matches(labels.Set(p.Labels)) && p.DeletionTimestamp == nil {
			list = append(list, p)
		}
	}
	return list
}

// wantedAway is a pod of the budget whose eviction somebody asks for and does not get.
func wantedAway(w *World, b *policyv1.PodDisruptionBudget) (*corev1.Pod, Refusal) {
	if w.Callers == nil {
		return nil, Refusal{}
	}
	for _, p := range guarded(w, b) {
		if r, ok := w.Callers.evicting(p.Namespace, p.Name); ok && w.Now.Sub(r.Last) < drainFor && w.tells(r.Message) {
			return p, r
		}
	}
	return nil, Refusal{}
}

// budgetHealth finds no gap in a budget that allows no disruption now, unless somebody wants one; but in one that never will.
func budgetHealth(w *World, b *policyv1.PodDisruptionBudget) Health {
	p, r := wantedAway(w, b)
	if c := uncounted(b); c != nil {
		return Health{Says: "can't count its pods", Want: "status.conditions[DisruptionAllowed]=True",
			Have: "status.conditions[DisruptionAllowed]=False", Since: c.LastTransitionTime.Time}
	}
	if p == nil || b.Status.DisruptionsAllowed > 0 && !SeveralBudgets(r.Message) {
		return w.wouldKeep(b)
	}
	return Health{Says: "keeps pod/" + p.Name + " from being evicted", Want: "pod/" + p.Name + " evicted",
		Have: fmt.Sprintf("status.disruptionsAllowed=%d", b.Status.DisruptionsAllowed), Since: r.First}
}

// SeveralBudgets says that an eviction was refused with the message because the pod has more than one budget.
func SeveralBudgets(message string) bool {
	return strings.Contains(message, "more than one PodDisruptionBudget")
}

// budgetsCollide: a pod has several budgets, and then it can't be evicted, whatever they allow.
func budgetsCollide(l *look) *Finding {
	b := l.obj.(*policyv1.PodDisruptionBudget)
	p, r := wantedAway(l.World, b)
	if p == nil || !SeveralBudgets(r.Message) {
		return nil
	}
	f := &Finding{Says: "is not the only budget of pod/" + p.Name + ", and a pod with several can't be evicted", Owner: person, State: Blocked,
		Error: r.failure(), Waits: on("Field", refTo(l.kind, b), "spec.selector"),
		Next:   does(person, "leaves the pod to one budget"),
		Advice: []string{"delete one of them, or let them select different pods: kubectl get pdb -n " + b.Namespace + " -o wide"}}
	for _, other := range resource.List(l.Read, kinds.PodDisruptionBudgets, b.Namespace) {
		if sel, err := metav1.LabelSelectorAsSelector(other.Spec.Selector); err == nil && other.Name != b.Name &&
			sel.Matches(labels.Set(p.Labels)) {
			f.Says = "is not its only budget: poddisruptionbudget/" + other.Name + " selects it too, and a pod with several can't be evicted"
		}
	}
	return f
}

// evictionBlocked is a budget without room at which somebody was refused lately. Without such a refusal it is no gap: a budget that
// allows nothing just now rests until something is to go. Pods of its own that are ill use up its room, so they lie below.
func evictionBlocked(l *look) *Finding {
	b := l.obj.(*policyv1.PodDisruptionBudget)
	p, r := wantedAway(l.World, b)
	if p == nil {
		return nil
	}
	f := &Finding{Says: "lets none of its pods go: " + r.Message, Owner: person, State: Blocked, Error: r.failure(),
		Waits: on("Field", refTo(l.kind, b), "status.disruptionsAllowed"),
		Next:  does(person, "makes more pods, or has the budget allow one less"),
		Advice: []string{"scale the workload up, so that one pod may go",
			"or lower minAvailable, or raise maxUnavailable: kubectl edit pdb " + b.Name + " -n " + b.Namespace}}
	for _, p := range guarded(l.World, b) {
		if !l.Health(kinds.Pods, p).Converged() {
			f.Below = append(f.Below, refTo(kinds.Pods, p))
		}
	}
	return f
}

// uncounted is the condition of a budget whose pods could not be counted; nil: they were.
func uncounted(b *policyv1.PodDisruptionBudget) *metav1.Condition {
	for i, c := range b.Status.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition && c.Status == metav1.ConditionFalse && c.Reason == policyv1.SyncFailedReason {
			return &b.Status.Conditions[i]
		}
	}
	return nil
}

// budgetNotCounted: the controller can't tell how many pods there should be, and so lets none go.
func budgetNotCounted(l *look) *Finding {
	b := l.obj.(*policyv1.PodDisruptionBudget)
	c := uncounted(b)
	if c == nil {
		return nil
	}
	f := &Finding{Says: "lets none of its pods go, since they can't be counted: " + oneLine(c.Message), State: Blocked, Owner: person,
		Error: textOnly(c.Message), Waits: on("Field", refTo(l.kind, b), "spec.selector"),
		Next: does(person, "has it select pods that can be counted")}
	if strings.Contains(c.Message, "controller") {
		f.Advice = []string{"pods without a controller can only be counted against minAvailable as a number: kubectl patch pdb " + b.Name +
			" -n " + b.Namespace + ` --type=merge -p '{"spec":{"maxUnavailable":null,"minAvailable":1}}'`,
			"or have it select pods of a controller alone: kubectl get pods --show-labels -n " + b.Namespace}
	}
	return f
}
