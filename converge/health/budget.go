package health

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// drainFor is the time after a refused eviction in which somebody is still thought to want it: a drain tries every 5 s.
const drainFor = time.Minute

// Guarded are the pods that a budget holds its hand over.
func Guarded(w *converge.World, b *policyv1.PodDisruptionBudget) (list []*corev1.Pod) {
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

// WantedAway is a pod of the budget whose eviction somebody asks for and does not get.
func WantedAway(w *converge.World, b *policyv1.PodDisruptionBudget) (*corev1.Pod, converge.Refusal) {
	if w.Callers == nil {
		return nil, converge.Refusal{}
	}
	for _, p := range Guarded(w, b) {
		if r, ok := w.Callers.Evicting(p.Namespace, p.Name); ok && w.Now.Sub(r.Last) < drainFor && w.Tells(r.Message) {
			return p, r
		}
	}
	return nil, converge.Refusal{}
}

// budgetHealth finds no gap in a budget that allows no disruption now, unless somebody wants one; but in one that never will.
func budgetHealth(w *converge.World, b *policyv1.PodDisruptionBudget) converge.Health {
	p, r := WantedAway(w, b)
	if c := Uncounted(b); c != nil {
		return converge.Health{Says: "can't count its pods", Want: "status.conditions[DisruptionAllowed]=True",
			Have: "status.conditions[DisruptionAllowed]=False", Since: c.LastTransitionTime.Time}
	}
	if p == nil || b.Status.DisruptionsAllowed > 0 && !words.SeveralBudgets(r.Message) {
		return wouldKeep(w, b)
	}
	return converge.Health{Says: "keeps pod/" + p.Name + " from being evicted", Want: "pod/" + p.Name + " evicted",
		Have: fmt.Sprintf("status.disruptionsAllowed=%d", b.Status.DisruptionsAllowed), Since: r.First}
}

// Uncounted is the condition of a budget whose pods could not be counted; nil: they were.
func Uncounted(b *policyv1.PodDisruptionBudget) *metav1.Condition {
	for i, c := range b.Status.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition && c.Status == metav1.ConditionFalse && c.Reason == policyv1.SyncFailedReason {
			return &b.Status.Conditions[i]
		}
	}
	return nil
}

// wouldKeep finds what will stand in the way of whoever wants pods of the budget evicted, before anybody does: it never allows it, another
// budget has them too, or they are on a node that was cordoned and none may go now.
func wouldKeep(w *converge.World, b *policyv1.PodDisruptionBudget) converge.Health {
	if h := NeverAllows(b); !h.Converged() {
		return h
	}
	if other, p := TwinOf(w, b); other != "" {
		return converge.Health{Says: "guards a pod that another budget guards too", Want: "one budget for pod/" + p.Name,
			Have: "poddisruptionbudget/" + other, Since: converge.Changed(b)}
	}
	if p := Stays(w, b); p != nil {
		return converge.Health{Says: "lets no pod go now, and one is on a cordoned node", Want: "status.disruptionsAllowed>0",
			Have: "status.disruptionsAllowed=0", Since: converge.Changed(b)}
	}
	return converge.Health{}
}

// A twin is another budget of a pod.
type twin struct {
	budget string
	pod    *corev1.Pod
}

// twinsByName are the budgets that share a pod, by namespace and name.
type twinsByName map[string]map[string]twin

// TwinOf is another budget that has a pod of this one, and that pod; "" when there is none.
func TwinOf(w *converge.World, b *policyv1.PodDisruptionBudget) (other string, pod *corev1.Pod) {
	twins := converge.Kept[twinsByName](w)
	if *twins == nil {
		*twins = twinsByName{}
	}
	of, known := (*twins)[b.Namespace]
	if !known {
		of = twinsIn(w, b.Namespace)
		(*twins)[b.Namespace] = of
	}
	return of[b.Name].budget, of[b.Name].pod
}

// twinsIn finds the budgets of a namespace that share a pod, each with one that it shares it with.
func twinsIn(w *converge.World, ns string) map[string]twin {
	found := map[string]twin{}
	budgets := resource.List(w.Read, kinds.PodDisruptionBudgets, ns)
	if len(budgets) < 2 {
		return found
	}
	var selectors []labels.Selector
	for _, b := range budgets {
		sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || b.DeletionTimestamp != nil {
			sel = labels.Nothing()
		}
		selectors = append(selectors, sel)
	}
	for _, p := range resource.List(w.Read, kinds.Pods, ns) {
		last := -1
		for i, sel := range selectors {
			if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning || !sel.Matches(labels.Set(p.Labels)) {
				continue
			}
			if last >= 0 {
				found[budgets[i].Name] = twin{budgets[last].Name, p}
				if _, has := found[budgets[last].Name]; !has {
					found[budgets[last].Name] = twin{budgets[i].Name, p}
				}
			}
			last = i
		}
	}
	return found
}

// Stays is a pod of the budget on a node that was cordoned, which the budget does not let go now. Only where evictions are not seen it says
// something: a drain begins with it.
func Stays(w *converge.World, b *policyv1.PodDisruptionBudget) *corev1.Pod {
	if !w.Outside() || b.Status.DisruptionsAllowed > 0 || b.Status.ExpectedPods == 0 || b.Status.ObservedGeneration < b.Generation {
		return nil
	}
	for _, p := range Guarded(w, b) {
		if n := resource.Get(w.Read, kinds.Nodes, "", p.Spec.NodeName); p.Spec.NodeName != "" && n != nil && n.Spec.Unschedulable {
			return p
		}
	}
	return nil
}
