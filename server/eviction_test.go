package server_test

import (
	"fmt"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
)

func (w *world) evict(name string, opts *metav1.DeleteOptions) error {
	_, err := w.Call(w.t.Context(), sub(w.ask(pods, name), "eviction"), "create",
		&policy.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}, DeleteOptions: opts})
	return err
}

// running makes a pod of a node that runs, ready or not.
func (w *world) running(name string, isReady core.ConditionStatus) {
	w.t.Helper()
	p := create(w, pods, &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "x"}}, Spec: core.PodSpec{NodeName: "n"}})
	p = resource.Clone(p)
	p.Status.Phase = core.PodRunning
	p.Status.Conditions = []core.PodCondition{{Type: core.PodReady, Status: isReady}}
	if _, _, err := w.Update(w.t.Context(), sub(w.ask(pods, name), "status"), p); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) budget(name string, status policy.PodDisruptionBudgetStatus) *policy.PodDisruptionBudget {
	w.t.Helper()
	b := create(w, budgets, &policy.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policy.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}})
	b = resource.Clone(b)
	b.Status = status
	e, _, err := w.Update(w.t.Context(), sub(w.ask(budgets, name), "status"), b)
	if err != nil {
		w.t.Fatal(err)
	}
	return e.Object.(*policy.PodDisruptionBudget)
}

func TestEvictWithoutBudget(t *testing.T) {
	w := start(t)
	w.running("p", core.ConditionTrue)
	if err := w.evict("p", nil); err != nil {
		t.Fatal(err)
	}
	p := w.get(pods, "p").(*core.Pod)
	last := p.Status.Conditions[len(p.Status.Conditions)-1]
	if p.DeletionTimestamp == nil || last.Type != core.DisruptionTarget || last.Reason != "EvictionByEvictionAPI" {
		t.Errorf("pod %+v", p)
	}
	if err := w.evict("none", nil); reason(err) != "NotFound" {
		t.Errorf("no pod: %v", err)
	}
	stale := "1"
	w.running("q", core.ConditionTrue)
	if err := w.evict("q", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &stale}}); reason(err) != "Conflict" {
		t.Errorf("precondition: %v", err)
	}
}

func TestEvictAsBudgetAllows(t *testing.T) {
	w := start(t)
	for _, n := range []string{"a", "b", "c"} {
		w.running(n, core.ConditionTrue)
	}
	w.running("sick", core.ConditionFalse)
	w.budget("b", policy.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 1, CurrentHealthy: 3, DesiredHealthy: 2})
	if err := w.evict("a", &metav1.DeleteOptions{DryRun: []string{"All"}}); err != nil || w.get(pods, "a").GetDeletionTimestamp() != nil {
		t.Errorf("dry run: %v", err)
	}
	if err := w.evict("a", nil); err != nil {
		t.Fatal(err)
	}
	b := w.get(budgets, "b").(*policy.PodDisruptionBudget)
	if _, is := b.Status.DisruptedPods["a"]; b.Status.DisruptionsAllowed != 0 || !is || len(b.Status.DisruptedPods) != 1 {
		t.Errorf("budget %+v", b.Status)
	}
	err := w.evict("b", nil)
	if reason(err) != "TooManyRequests DisruptionBudget " || !strings.Contains(err.Error(), "violate") || w.get(pods, "b").GetDeletionTimestamp() != nil {
		t.Errorf("over budget: %v", err)
	}
	if err := w.evict("sick", nil); err != nil || w.get(pods, "sick").GetDeletionTimestamp() == nil {
		t.Errorf("a pod that is not ready: %v", err)
	}
	w.budget("second", policy.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 9})
	if err := w.evict("b", nil); reason(err) != "500" {
		t.Errorf("two budgets: %v", err)
	}
}

func TestEvictWaitsForBudget(t *testing.T) {
	w := start(t)
	w.running("a", core.ConditionTrue)
	w.budget("b", policy.PodDisruptionBudgetStatus{ObservedGeneration: 0, DisruptionsAllowed: 1})
	if err := w.evict("a", nil); reason(err) != "TooManyRequests DisruptionBudget " {
		t.Errorf("got %v", err)
	}
}

// TestEvictTellsOfBrokenBudget: what is wrong with a budget can be told from other reasons to refuse.
func TestEvictTellsOfBrokenBudget(t *testing.T) {
	w := start(t)
	w.running("p", core.ConditionTrue)
	many := map[string]metav1.Time{}
	for i := range 2001 {
		many[fmt.Sprintf("p-%d", i)] = metav1.Now()
	}
	b := w.budget("b", policy.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, DisruptedPods: many, ObservedGeneration: 9})
	if err := w.evict("p", nil); reason(err) != "Forbidden DisruptionBudget " {
		t.Errorf("with %d disrupted pods: %v", len(b.Status.DisruptedPods), err)
	}
}
