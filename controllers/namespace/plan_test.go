package namespace

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
)

func TestPlanTakesPodsFirst(t *testing.T) {
	pod := item{kinds.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}}
	going := item{kinds.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "g", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}}}
	cm := item{kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}}
	for _, tt := range []struct {
		name string
		seen []item
		want string
	}{
		{"nothing", nil, ""}, {"pods before all else", []item{cm, pod, going}, "p"}, {"they have to be gone", []item{cm, going}, ""},
		{"then the rest", []item{cm}, "c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			for _, it := range plan(tt.seen) {
				got += it.obj.GetName()
			}
			if got != tt.want {
				t.Errorf("%s: deletes %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	now := time.Unix(100, 0)
	held := item{kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Finalizers: []string{"x/y"}}}}
	st := conditions(&corev1.Namespace{}, []item{held}, elsewhere{}, errors.New("boom"), now)
	want := map[corev1.NamespaceConditionType][2]string{
		corev1.NamespaceDeletionDiscoveryFailure: {"False", "All resources"},
		corev1.NamespaceDeletionGVParsingFailure: {"False", "All legacy"},
		corev1.NamespaceDeletionContentFailure:   {"True", "boom"},
		corev1.NamespaceContentRemaining:         {"True", "Some resources are remaining: configmaps. has 1 resource instances"},
		corev1.NamespaceFinalizersRemaining:      {"True", "Some content in the namespace has finalizers remaining: x/y in 1 resource instances"},
	}
	if st.Phase != corev1.NamespaceTerminating || len(st.Conditions) != len(want) {
		t.Fatalf("%+v", st)
	}
	for _, c := range st.Conditions {
		if w := want[c.Type]; string(c.Status) != w[0] || !strings.Contains(c.Message, w[1]) {
			t.Errorf("%s is %s: %s", c.Type, c.Status, c.Message)
		}
	}
	later := conditions(&corev1.Namespace{Status: st}, []item{held}, elsewhere{}, errors.New("boom"), now.Add(time.Hour))
	if later.Conditions[0].LastTransitionTime != st.Conditions[0].LastTransitionTime {
		t.Error("a condition that says the same has a new time")
	}
	pod := item{kinds.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Finalizers: []string{"x/y"}}}}
	for name, seen := range map[string][]item{"an empty namespace": nil, "one with pods": {held, pod}} {
		t.Run(name, func(t *testing.T) {
			for _, c := range conditions(&corev1.Namespace{Status: st}, seen, elsewhere{}, nil, now).Conditions {
				if c.Status != corev1.ConditionFalse {
					t.Errorf("%s: %+v", name, c)
				}
			}
		})
	}
}

func TestElsewhere(t *testing.T) {
	far := elsewhere{left: map[string]int{"things.x.example": 2}, dead: []string{"y.example/v1: gone"}}
	st := conditions(&corev1.Namespace{}, nil, far, nil, time.Unix(100, 0))
	want := map[corev1.NamespaceConditionType]string{
		corev1.NamespaceDeletionDiscoveryFailure: "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of " +
			"server APIs: y.example/v1: gone",
		corev1.NamespaceContentRemaining: "Some resources are remaining: things.x.example has 2 resource instances",
	}
	for _, c := range st.Conditions {
		if w := want[c.Type]; (c.Status == corev1.ConditionTrue) != (w != "") || w != "" && c.Message != w {
			t.Errorf("%s is %s: %s", c.Type, c.Status, c.Message)
		}
	}
}
