package converge

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// wouldKeep finds what will stand in the way of whoever wants pods of the budget evicted, before anybody does: it never allows it, another
// budget has them too, or they are on a node that was cordoned and none may go now.
func (w *World) wouldKeep(b *policyv1.PodDisruptionBudget) Health {
	if h := neverAllows(b); !h.Converged() {
		return h
	}
	if other, p := w.twin(b); other != "" {
		return Health{Says: "guards a pod that another budget guards too", Want: "one budget for pod/" + p.Name,
			Have: "poddisruptionbudget/" + other, Since: changed(b)}
	}
	if p := w.stays(b); p != nil {
		return Health{Says: "lets no pod go now, and one is on a cordoned node", Want: "status.disruptionsAllowed>0",
			Have: "status.disruptionsAllowed=0", Since: changed(b)}
	}
	return Health{}
}

// A twin is another budget of a pod.
type twin struct {
	budget string
	pod    *corev1.Pod
}

// twinsByName are the budgets that share a pod, by namespace and name.
type twinsByName map[string]map[string]twin

// twin is another budget that has a pod of this one, and that pod; "" when there is none.
func (w *World) twin(b *policyv1.PodDisruptionBudget) (other string, pod *corev1.Pod) {
	twins := Kept[twinsByName](w)
	if *twins == nil {
		*twins = twinsByName{}
	}
	of, known := (*twins)[b.Namespace]
	if !known {
		of = w.twinsIn(b.Namespace)
		(*twins)[b.Namespace] = of
	}
	return of[b.Name].budget, of[b.Name].pod
}

// twinsIn finds the budgets of a namespace that share a pod, each with one that it shares it with.
func (w *World) twinsIn(ns string) map[string]twin {
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

// budgetsWouldCollide: a pod has several budgets, and nobody has tried to evict it yet.
func budgetsWouldCollide(l *look) *Finding {
	b := l.obj.(*policyv1.PodDisruptionBudget)
	other, p := l.twin(b)
	if other == "" {
		return nil
	}
	return &Finding{Says: "is not the only budget of pod/" + p.Name + ": poddisruptionbudget/" + other +
		" selects it too, and a pod with several can't be evicted", Owner: person, State: Latent,
		Waits: on("Field", refTo(l.kind, b), "spec.selector"), Next: does(person, "leaves the pod to one budget"),
		Advice: []string{"delete one of them, or let them select different pods: kubectl get pdb -n " + b.Namespace + " -o wide"}}
}

// stays is a pod of the budget on a node that was cordoned, which the budget does not let go now. Only where evictions are not seen it says
// something: a drain begins with it.
func (w *World) stays(b *policyv1.PodDisruptionBudget) *corev1.Pod {
	if !w.outside() || b.Status.DisruptionsAllowed > 0 || b.Status.ExpectedPods == 0 || b.Status.ObservedGeneration < b.Generation {
		return nil
	}
	for _, p := range guarded(w, b) {
		if n := resource.Get(w.Read, kinds.Nodes, "", p.Spec.NodeName); p.Spec.NodeName != "" && n != nil && n.Spec.Unschedulable {
			return p
		}
	}
	return nil
}

// drainWouldWait: somebody cordoned a node, and whoever drains it waits for the budget.
func drainWouldWait(l *look) *Finding {
	b := l.obj.(*policyv1.PodDisruptionBudget)
	p := l.stays(b)
	if p == nil {
		return nil
	}
	f := &Finding{Says: fmt.Sprintf("keeps pod/%s on node %s, which is cordoned: %d of its pods are healthy and %d must be; "+
		"whether somebody drains the node is not known here", p.Name, p.Spec.NodeName, b.Status.CurrentHealthy, b.Status.DesiredHealthy),
		Owner: person, State: Latent,
		Waits: on("Field", refTo(l.kind, b), "status.disruptionsAllowed"),
		Next:  does(person, "makes more pods, or has the budget allow one less"),
		Advice: []string{"scale the workload up, so that one pod may go",
			"or lower minAvailable, or raise maxUnavailable: kubectl edit pdb " + b.Name + " -n " + b.Namespace}}
	for _, p := range guarded(l.World, b) {
		if !l.Health(kinds.Pods, p).Converged() {
			f.State, f.Below = Waiting, append(f.Below, refTo(kinds.Pods, p))
		}
	}
	return f
}

// keptThere names the budgets that keep pods on a node from which they are to go.
func keptThere(w *World, n *corev1.Node) string {
	var kept []string
	for _, b := range resource.List(w.Read, kinds.PodDisruptionBudgets, "") {
		if b.Status.DisruptionsAllowed > 0 {
			continue
		}
		for _, p := range guarded(w, b) {
			if p.Spec.NodeName == n.Name {
				kept = append(kept, b.Namespace+": pod/"+p.Name+" by poddisruptionbudget/"+b.Name)
			}
		}
	}
	if len(kept) == 0 {
		return ""
	}
	slices.Sort(kept)
	return "budgets let none of these pods go: " + list(kept, 3)
}
