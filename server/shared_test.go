package server_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
)

// What the server changes by itself shares with what was there all that stays. Others read that: it never changes.
func TestWhatWasStaysAsItWas(t *testing.T) {
	w := start(t)
	unchanged := func(what string, k resource.Kind, name string, do func() error) {
		t.Helper()
		old := w.get(k, name)
		was := resource.Clone(old)
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !equality.Semantic.DeepEqual(old, was) {
			t.Errorf("%s changed what was there:\n%+v\n%+v", what, was, old)
		}
	}
	create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"k": "v"},
		Annotations: map[string]string{"k": "v"}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}}})
	unchanged("binding", pods, "p", func() error {
		_, err := w.Call(t.Context(), sub(w.ask(pods, "p"), "binding"), "create",
			&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n"},
				ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"k": "w", "l": "v"},
					Annotations: map[string]string{"k": "w", "l": "v"}}})
		return err
	})
	if p := w.get(pods, "p").(*corev1.Pod); p.Labels["k"] != "v" || p.Labels["l"] != "v" || p.Annotations["k"] != "w" ||
		p.Annotations["l"] != "v" {
		t.Errorf("bound: labels %v, annotations %v", p.Labels, p.Annotations)
	}
	unchanged("deletion", pods, "p", func() error {
		_, _, err := w.Delete(t.Context(), w.ask(pods, "p"), nil)
		return err
	})
	w.running("q", corev1.ConditionTrue)
	w.budget("b", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, ObservedGeneration: 1, CurrentHealthy: 2, DesiredHealthy: 1,
		DisruptedPods: map[string]metav1.Time{"other": metav1.Now()},
		Conditions: []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionTrue,
			Reason: policyv1.SufficientPodsReason}}})
	unchanged("eviction of a pod", pods, "q", func() error {
		was := w.get(budgets, "b")
		copied := resource.Clone(was)
		err := w.evict("q", nil)
		if !equality.Semantic.DeepEqual(was, copied) {
			t.Errorf("eviction changed the budget that was there:\n%+v\n%+v", copied, was)
		}
		return err
	})
}
