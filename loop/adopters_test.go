package loop_test

import (
	"iter"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// sets is a reader of ReplicaSets, which counts who looks through them.
type sets struct {
	snapshot
	list  []*appsv1.ReplicaSet
	looks *int
}

func (s sets) Each(resource.Kind, string) iter.Seq[resource.Object] {
	*s.looks++
	return func(yield func(resource.Object) bool) {
		for _, o := range s.list {
			if !yield(o) {
				return
			}
		}
	}
}

// Who may adopt an object is looked for when that comes about, and not with each change of a status: a namespace may have thousands of pods
// that nobody controls, and hundreds of sets.
func TestAdopters(t *testing.T) {
	of := func(name string, s *metav1.LabelSelector) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a"}, Spec: appsv1.ReplicaSetSpec{Selector: s}}
	}
	list := []*appsv1.ReplicaSet{of("x", &metav1.LabelSelector{MatchLabels: map[string]string{"k": "x"}}),
		of("y", &metav1.LabelSelector{MatchLabels: map[string]string{"k": "y"}}), of("nil", nil), of("empty", &metav1.LabelSelector{})}
	w := loop.Adopters(kinds.Pods, kinds.ReplicaSets, func(o *appsv1.ReplicaSet) *metav1.LabelSelector { return o.Spec.Selector })
	pod := func(label string, phase corev1.PodPhase, owners ...metav1.OwnerReference) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "a", Labels: map[string]string{"k": label},
			OwnerReferences: owners}, Status: corev1.PodStatus{Phase: phase}}
	}
	owned := metav1.OwnerReference{Kind: "ReplicaSet", Name: "z", Controller: new(true)}
	for _, tt := range []struct {
		name     string
		old, new *corev1.Pod
		want     []string
		looks    int
	}{
		{"made", nil, pod("x", ""), []string{"x"}, 1},
		{"made with an owner", nil, pod("x", "", owned), nil, 0},
		{"relabeled", pod("x", ""), pod("y", ""), []string{"y"}, 1},
		{"released", pod("x", "", owned), pod("x", ""), []string{"x"}, 1},
		{"adopted", pod("x", ""), pod("x", "", owned), nil, 0},
		{"runs", pod("x", ""), pod("x", corev1.PodRunning), nil, 0},
		{"deleted", pod("x", ""), nil, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			looks := 0
			c := client.Change{Kind: kinds.Pods}
			if tt.old != nil {
				c.Old = tt.old
			}
			if tt.new != nil {
				c.New = tt.new
			}
			w.Keys(c, sets{list: list, looks: &looks}, func(_, name string) { got = append(got, name) })
			if !slices.Equal(got, tt.want) || looks != tt.looks {
				t.Errorf("woken: %q after %d looks, want %q after %d", got, looks, tt.want, tt.looks)
			}
		})
	}
}

// Selects says what a selector that was parsed says.
func TestSelects(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    *metav1.LabelSelector
	}{
		{"nil", nil},
		{"empty", &metav1.LabelSelector{}},
		{"labels", &metav1.LabelSelector{MatchLabels: map[string]string{"a": "1", "b": ""}}},
		{"both", &metav1.LabelSelector{MatchLabels: map[string]string{"a": "1"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "c", Operator: metav1.LabelSelectorOpExists}}}},
		{"absent", &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "c", Operator: metav1.LabelSelectorOpDoesNotExist}}}},
		{"unreadable", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "c", Operator: "near"}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, l := range []labels.Set{nil, {}, {"a": "1"}, {"a": "1", "b": ""}, {"a": "1", "c": "x"}, {"a": "2", "b": "", "c": ""}} {
				s, err := metav1.LabelSelectorAsSelector(tt.s)
				if want := err == nil && s.Matches(l); loop.Selects(tt.s, l) != want {
					t.Errorf("%v: %v, want %v", l, !want, want)
				}
			}
		})
	}
}
