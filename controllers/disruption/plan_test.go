package disruption

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlan(t *testing.T) {
	now := time.Unix(10000, 0)
	pod := func(name string, ready bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if ready {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		return p
	}
	three := []*corev1.Pod{pod("a", true), pod("b", true), pod("c", true)}
	evicted := func(name string, ago time.Duration) map[string]metav1.Time {
		return map[string]metav1.Time{name: metav1.NewTime(now.Add(-ago))}
	}
	for _, tt := range []struct {
		name    string
		pods    []*corev1.Pod
		n       count
		evicted map[string]metav1.Time
		failed  error
		allowed int32
		reason  string
		again   time.Duration
	}{
		{"one to spare", three, count{expected: 3, desired: 2}, nil, nil, 1, "SufficientPods", 0},
		{"all must stay", three, count{expected: 3, desired: 3}, nil, nil, 0, "InsufficientPods", 0},
		{"one is sick", []*corev1.Pod{three[0], three[1], pod("c", false)}, count{expected: 3, desired: 2}, nil, nil, 0, "InsufficientPods", 0},
		{"one is about to go", three, count{expected: 3, desired: 2}, evicted("a", time.Minute), nil, 0, "InsufficientPods", time.Minute},
		{"it was not deleted", three, count{expected: 3, desired: 2}, evicted("a", time.Hour), nil, 1, "SufficientPods", 0},
		{"no pods", nil, count{}, nil, nil, 0, "InsufficientPods", 0},
		{"unknown", three, count{}, nil, errors.New("x"), 0, "SyncFailed", 0},
	} {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Generation: 4},
			Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 3, DisruptedPods: tt.evicted}}
		st, again := plan(b, tt.pods, tt.n, tt.failed, now)
		observed := int64(4)
		if tt.failed != nil {
			observed = 3 // still: the counts are those of then
		}
		if st.DisruptionsAllowed != tt.allowed || st.Conditions[0].Reason != tt.reason || again != tt.again ||
			st.ObservedGeneration != observed || st.Conditions[0].ObservedGeneration != observed {
			t.Errorf("%s: %d allowed, %s, again %v: %+v", tt.name, st.DisruptionsAllowed, st.Conditions[0].Reason, again, st)
		}
	}
}
