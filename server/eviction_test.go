package server_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
)

func (w *world) evict(name string, opts *metav1.DeleteOptions) error {
	_, err := w.Call(w.t.Context(), sub(w.ask(pods, name), "eviction"), "create",
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}, DeleteOptions: opts})
	return err
}

// running makes a pod of a node that runs, ready or not.
func (w *world) running(name string, isReady corev1.ConditionStatus) {
	w.t.Helper()
	p := create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "x"}},
		Spec: corev1.PodSpec{NodeName: "n"}})
	p = resource.Clone(p)
	p.Status.Phase, p.Status.ObservedGeneration = corev1.PodRunning, 1
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: isReady}}
	if _, _, err := w.Update(w.t.Context(), sub(w.ask(pods, name), "status"), p); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) budget(name string, status policyv1.PodDisruptionBudgetStatus) *policyv1.PodDisruptionBudget {
	w.t.Helper()
	b := create(w, budgets, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}})
	b = resource.Clone(b)
	b.Status = status
	e, _, err := w.Update(w.t.Context(), sub(w.ask(budgets, name), "status"), b)
	if err != nil {
		w.t.Fatal(err)
	}
	return e.Object.(*policyv1.PodDisruptionBudget)
}

func TestEvictWithoutBudget(t *testing.T) {
	w := start(t)
	w.running("p", corev1.ConditionTrue)
	if err := w.evict("p", nil); err != nil {
		t.Fatal(err)
	}
	p := w.get(pods, "p").(*corev1.Pod)
	last := p.Status.Conditions[len(p.Status.Conditions)-1]
	if p.DeletionTimestamp == nil || last.Type != corev1.DisruptionTarget || last.Reason != "EvictionByEvictionAPI" ||
		last.ObservedGeneration != 0 {
		t.Errorf("pod %+v", p)
	}
	if err := w.evict("none", nil); reason(err) != "NotFound" {
		t.Errorf("no pod: %v", err)
	}
	stale := "1"
	w.running("q", corev1.ConditionTrue)
	const unread = "deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential"
	err := w.evict("q", &metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)})
	if reason(err) != "Invalid FieldValueInvalid "+unread {
		t.Errorf("unread: %v", err)
	}
	if err := w.evict("q", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &stale}}); reason(err) != "Conflict" {
		t.Errorf("precondition: %v", err)
	}
	if err := w.evict("q", &metav1.DeleteOptions{DryRun: []string{"x"}}); reason(err) != "Invalid FieldValueNotSupported dryRun" {
		t.Errorf("dry run: %v", err)
	}
	if q := w.get(pods, "q").(*corev1.Pod); len(q.Status.Conditions) != 1 {
		t.Errorf("what was not evicted: %+v", q.Status)
	}
}

func TestEvictAsBudgetAllows(t *testing.T) {
	w := start(t)
	for _, n := range []string{"a", "b", "c"} {
		w.running(n, corev1.ConditionTrue)
	}
	w.running("sick", corev1.ConditionFalse)
	w.budget("b", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 1, CurrentHealthy: 3, DesiredHealthy: 2})
	if err := w.evict("a", &metav1.DeleteOptions{DryRun: []string{"All"}}); err != nil || w.get(pods, "a").GetDeletionTimestamp() != nil {
		t.Errorf("dry run: %v", err)
	}
	if err := w.evict("a", nil); err != nil {
		t.Fatal(err)
	}
	b := w.get(budgets, "b").(*policyv1.PodDisruptionBudget)
	if _, is := b.Status.DisruptedPods["a"]; b.Status.DisruptionsAllowed != 0 || !is || len(b.Status.DisruptedPods) != 1 {
		t.Errorf("budget %+v", b.Status)
	}
	err := w.evict("b", nil)
	if reason(err) != "TooManyRequests DisruptionBudget " || !strings.Contains(err.Error(), "violate") ||
		w.get(pods, "b").GetDeletionTimestamp() != nil {
		t.Errorf("over budget: %v", err)
	}
	if err := w.evict("sick", nil); err != nil || w.get(pods, "sick").GetDeletionTimestamp() == nil {
		t.Errorf("a pod that is not ready: %v", err)
	}
	w.budget("second", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 9})
	if err := w.evict("b", nil); reason(err) != "500" {
		t.Errorf("two budgets: %v", err)
	}
}

// TestEvictionsFaults: the budget has its say before preconditions do, options that exclude each other are told of before them in a dry
// run, and a pod that its budget spares, but is another one, is to be tried again.
func TestEvictionsFaults(t *testing.T) {
	w := start(t)
	w.running("a", corev1.ConditionTrue)
	w.running("sick", corev1.ConditionFalse)
	w.budget("b", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 1, DesiredHealthy: 1})
	other, policy := types.UID("other"), metav1.DeletionPropagation("x")
	wrong := &metav1.Preconditions{UID: &other}
	create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "free"}})
	for _, c := range []struct {
		name, pod string
		opts      metav1.DeleteOptions
		want      string
	}{
		{"a budget that allows none", "a", metav1.DeleteOptions{Preconditions: wrong}, "TooManyRequests DisruptionBudget "},
		{"spared", "sick", metav1.DeleteOptions{Preconditions: wrong}, "TooManyRequests DisruptionBudget "},
		{"no budget", "free", metav1.DeleteOptions{Preconditions: wrong, PropagationPolicy: &policy}, "Conflict"},
		{"a dry run", "free", metav1.DeleteOptions{Preconditions: wrong, PropagationPolicy: &policy, DryRun: []string{"All"}},
			"Invalid FieldValueNotSupported propagationPolicy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := w.evict(c.pod, &c.opts); reason(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// An eviction that is meant for another pod, or another state of it, costs the budget nothing.
func TestEvictOfAnotherPod(t *testing.T) {
	w := start(t)
	w.running("a", corev1.ConditionTrue)
	w.budget("b", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 2, CurrentHealthy: 3, DesiredHealthy: 1})
	other, stale := types.UID("other"), "1"
	for name, p := range map[string]*metav1.Preconditions{"uid": {UID: &other}, "revision": {ResourceVersion: &stale}} {
		t.Run(name, func(t *testing.T) {
			if err := w.evict("a", &metav1.DeleteOptions{Preconditions: p}); reason(err) != "Conflict" {
				t.Errorf("got %v", err)
			}
			if b := w.get(budgets, "b").(*policyv1.PodDisruptionBudget); b.Status.DisruptionsAllowed != 2 || len(b.Status.DisruptedPods) > 0 {
				t.Errorf("budget %+v", b.Status)
			}
		})
	}
	uid := w.get(pods, "a").GetUID()
	if err := w.evict("a", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		t.Errorf("this very pod: %v", err)
	}
}

// TestAdmittedBeforeNames: who binds or evicts in a namespace that ends is told so, whatever is wrong with the request.
func TestAdmittedBeforeNames(t *testing.T) {
	w := start(t, func(c *testcluster.Config) {
		c.Admission = plugin(func(r *admission.Request) error {
			if r.Sub == "" {
				return nil
			}
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, r.Name, nil)
		}, nil)
	})
	create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	for name, in := range map[string]resource.Object{"binding": &corev1.Binding{}, "eviction": &policyv1.Eviction{}} {
		t.Run(name, func(t *testing.T) {
			if _, err := w.Call(t.Context(), sub(w.ask(pods, "p"), name), "create", in); reason(err) != "Forbidden" {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEvictWaitsForBudget(t *testing.T) {
	w := start(t)
	w.running("a", corev1.ConditionTrue)
	w.budget("b", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 0, DisruptionsAllowed: 1})
	if err := w.evict("a", nil); reason(err) != "TooManyRequests DisruptionBudget " {
		t.Errorf("got %v", err)
	}
}

// TestEvictTellsOfBrokenBudget: what is wrong with a budget can be told from other reasons to refuse.
func TestEvictTellsOfBrokenBudget(t *testing.T) {
	w := start(t)
	w.running("p", corev1.ConditionTrue)
	many := map[string]metav1.Time{}
	for i := range 2001 {
		many[fmt.Sprintf("p-%d", i)] = metav1.Now()
	}
	b := w.budget("b", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, DisruptedPods: many, ObservedGeneration: 9})
	err := w.evict("p", nil)
	if reason(err) != "Forbidden DisruptionBudget " || cause(err) !=
		"The disruption budget b does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller" {
		t.Errorf("with %d disrupted pods: %v, %s", len(b.Status.DisruptedPods), err, cause(err))
	}
}

// cause is the text of an error's first cause.
func cause(err error) string {
	var s apierrors.APIStatus
	if errors.As(err, &s) && s.Status().Details != nil && len(s.Status().Details.Causes) > 0 {
		return s.Status().Details.Causes[0].Message
	}
	return ""
}

// TestEvictTellsWhy: a budget that allows no disruption tells why.
func TestEvictTellsWhy(t *testing.T) {
	condition := func(reason, text string) []metav1.Condition {
		return []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: text,
			LastTransitionTime: metav1.Now()}}
	}
	const none = "The disruption budget b does not allow evicting pods currently"
	for name, tt := range map[string]struct {
		status policyv1.PodDisruptionBudgetStatus
		want   string
	}{
		"too few": {policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1, DesiredHealthy: 2},
			"The disruption budget b needs 2 healthy pods and has 1 currently"},
		"its loop fails": {policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1, DesiredHealthy: 2,
			Conditions: condition(policyv1.SyncFailedReason, "found no controllers")}, none + " because it failed sync: found no controllers"},
		"something else": {policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 3, DesiredHealthy: 2,
			Conditions: condition(policyv1.InsufficientPodsReason, "soon")}, none + " (InsufficientPods): soon"},
		"nobody knows": {policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 3, DesiredHealthy: 2,
			Conditions: condition(policyv1.InsufficientPodsReason, "")}, none},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			w.running("p", corev1.ConditionTrue)
			tt.status.ObservedGeneration = 1
			w.budget("b", tt.status)
			if err := w.evict("p", nil); cause(err) != tt.want {
				t.Errorf("got %v, %q", err, cause(err))
			}
		})
	}
}

// Whether a pod that is not ready may be evicted is up to the budget's policy, and with the default one to how its other pods are. Ready
// ones may go as long as the budget has room.
func TestEvictUnreadyPods(t *testing.T) {
	for _, tt := range []struct {
		policy      policyv1.UnhealthyPodEvictionPolicyType
		healthy     int32
		sick, ready bool
	}{
		{"", 2, true, false}, {"", 1, false, false}, {"", 3, true, true},
		{policyv1.IfHealthyBudget, 2, true, false}, {policyv1.IfHealthyBudget, 1, false, false}, {policyv1.IfHealthyBudget, 3, true, true},
		{policyv1.AlwaysAllow, 2, true, false}, {policyv1.AlwaysAllow, 1, true, false}, {policyv1.AlwaysAllow, 3, true, true},
	} {
		w := start(t)
		w.running("sick", corev1.ConditionFalse)
		w.running("sound", corev1.ConditionTrue)
		b := resource.Clone(w.budget("b", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: tt.healthy,
			DesiredHealthy: 2, DisruptionsAllowed: max(0, tt.healthy-2)}))
		if b.Spec.UnhealthyPodEvictionPolicy = &tt.policy; tt.policy == "" {
			b.Spec.UnhealthyPodEvictionPolicy = nil
		}
		if _, _, err := w.Update(t.Context(), w.ask(budgets, "b"), b); err != nil {
			t.Fatal(err)
		}
		b = resource.Clone(w.get(budgets, "b").(*policyv1.PodDisruptionBudget))
		b.Status.ObservedGeneration = b.Generation
		if _, _, err := w.Update(t.Context(), sub(w.ask(budgets, "b"), "status"), b); err != nil {
			t.Fatal(err)
		}
		if err := w.evict("sick", nil); (err == nil) != tt.sick {
			t.Errorf("%q, %d healthy, not ready: %v", tt.policy, tt.healthy, err)
		}
		if err := w.evict("sound", nil); (err == nil) != tt.ready {
			t.Errorf("%q, %d healthy, ready: %v", tt.policy, tt.healthy, err)
		}
	}
}
