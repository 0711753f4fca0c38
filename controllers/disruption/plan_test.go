package disruption

import (
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
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
		t.Run(tt.name, func(t *testing.T) {
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
		})
	}
}

// TestExpect counts by what controls the pods: a Deployment for its ReplicaSets, and else the set itself.
func TestExpect(t *testing.T) {
	controller := true
	ref := func(version, kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: types.UID(name), Controller: &controller}}
	}
	half, set := intstr.FromString("50%"), kinds.NewSet()
	v := view.New(set)
	v.Replace(kinds.Deployments, 1, []resource.Object{&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "d", UID: "d"},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(8))}}})
	replicas := func(name string, owners []metav1.OwnerReference) resource.Object {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), OwnerReferences: owners},
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(4))}}
	}
	v.Replace(kinds.ReplicaSets, 1, []resource.Object{replicas("of-d", ref("apps/v1", "Deployment", "d")),
		replicas("of-x", ref("example.com/v1", "Rollout", "x")), replicas("of-none", ref("apps/v1", "Deployment", "none"))})
	for _, tt := range []struct {
		name   string
		limit  *intstr.IntOrString
		owners []metav1.OwnerReference
		want   string
	}{
		{"no limit and no owner", nil, nil, "0 of 0 <nil>"},
		{"ReplicaSet of a Deployment", &half, ref("apps/v1", "ReplicaSet", "of-d"), "4 of 8 <nil>"},
		{"ReplicaSet in a group of old", &half, ref("extensions/v1beta1", "ReplicaSet", "of-d"), "4 of 8 <nil>"},
		{"ReplicaSet of another kind", &half, ref("apps/v1", "ReplicaSet", "of-x"), "2 of 4 <nil>"},
		{"ReplicaSet of nothing that is there", &half, ref("apps/v1", "ReplicaSet", "of-none"), "2 of 4 <nil>"},
		{"ReplicaSet that is gone", &half, ref("apps/v1", "ReplicaSet", "none"), `0 of 0 found no controllers for pod "p"`},
		{"owner of an unknown kind",
			&half, ref("example.com/v1", "Rollout", "x"), `0 of 0 no matches for kind "Rollout" in version "example.com/v1"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: tt.limit}}
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", OwnerReferences: tt.owners}}
			n, err := expect(v.Snapshot(), set, b, []*corev1.Pod{p})
			if got := fmt.Sprintf("%d of %d %v", n.desired, n.expected, err); got != tt.want {
				t.Errorf("%v: %s, want %s", tt.owners, got, tt.want)
			}
		})
	}
}
