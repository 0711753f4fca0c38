package replicas

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Unix(10000, 0)

func set(n, minReady int32) Set {
	return Set{Object: &corev1.ReplicationController{}, Replicas: n, MinReady: minReady,
		Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}}
}

type edit func(*corev1.Pod)

func pod(name string, edits ...edit) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, e := range edits {
		e(p)
	}
	return p
}

func ready(ago time.Duration) edit {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now.Add(-ago))}}
	}
}
func phase(ph corev1.PodPhase) edit { return func(p *corev1.Pod) { p.Status.Phase = ph } }
func refused(ago time.Duration) edit {
	return func(p *corev1.Pod) {
		p.Status.Phase, p.CreationTimestamp = corev1.PodFailed, metav1.NewTime(now.Add(-ago))
	}
}
func taken(ago time.Duration) edit {
	return func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(now.Add(-ago))
		p.Status.StartTime = &p.CreationTimestamp
	}
}
func node(n string) edit    { return func(p *corev1.Pod) { p.Spec.NodeName = n } }
func deleted(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }
func cost(n int) edit {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: fmt.Sprint(n)} }
}

func TestPlan(t *testing.T) {
	gone := set(3, 0)
	gone.Object.SetDeletionTimestamp(&metav1.Time{Time: now})
	for _, tt := range []struct {
		name   string
		rs     Set
		pods   []*corev1.Pod
		create int
		remove string
		again  time.Duration
	}{
		{"none yet", set(3, 0), nil, 3, "", 0},
		{"enough", set(2, 0), []*corev1.Pod{pod("a"), pod("b")}, 0, "", 0},
		{"ended and going ones do not count", set(2, 0), []*corev1.Pod{pod("a", phase(corev1.PodFailed)), pod("b", deleted), pod("c")}, 1, "", 0},
		{"refused just now", set(2, 0), []*corev1.Pod{pod("a", refused(0)), pod("b", refused(0))}, 0, "", 2 * time.Second},
		{"refused for the third time", set(1, 0), []*corev1.Pod{pod("a", refused(9*time.Second)), pod("b", refused(6*time.Second)),
			pod("c", refused(time.Second))},
			0, "", 7 * time.Second},
		{"refused a while ago", set(2, 0), []*corev1.Pod{pod("a", refused(3*time.Second)), pod("b", refused(3*time.Second))}, 2, "", 0},
		{"refused long ago", set(2, 0), []*corev1.Pod{pod("a", refused(time.Hour)), pod("b", refused(time.Hour))}, 2, "", 0},
		{"of many that were refused few are tried", set(300, 0), []*corev1.Pod{pod("a", refused(time.Minute))}, fewPods, "", 0},
		{"one was taken since", set(3, 0), []*corev1.Pod{pod("a", refused(2*time.Second)), pod("b", taken(time.Second))}, 2, "", 0},
		{"failed, not refused", set(1, 0),
			[]*corev1.Pod{pod("a", refused(0), func(p *corev1.Pod) { p.Status.ContainerStatuses = make([]corev1.ContainerStatus, 1) })}, 1, "", 0},
		{"deleted set", gone, nil, 0, "", 0},
		{"unassigned goes first", set(1, 0), []*corev1.Pod{pod("a"), pod("b", node(""))}, 0, "b", 0},
		{"pending before running", set(1, 0), []*corev1.Pod{pod("a"), pod("b", phase(corev1.PodPending))}, 0, "b", 0},
		{"unready before ready", set(1, 0), []*corev1.Pod{pod("a", ready(time.Hour)), pod("b")}, 0, "b", 0},
		{"cheap before dear", set(1, 0), []*corev1.Pod{pod("a", ready(time.Hour)), pod("b", ready(time.Hour), cost(-1))}, 0, "b", 0},
		{"from the crowded node", set(2, 0), []*corev1.Pod{pod("a", ready(time.Hour), node("x")), pod("b", ready(time.Hour), node("y")),
			pod("c", ready(time.Hour), node("y"), cost(0))}, 0, "b", 0},
		{"from the node that others like them crowd", func() Set {
			s := set(1, 0)
			s.Company = []*corev1.Pod{pod("x", node("y")), pod("z", node("x"), deleted), pod("z", node("x"), phase(corev1.PodFailed))}
			return s
		}(), []*corev1.Pod{pod("a", ready(time.Minute), node("x")), pod("b", ready(time.Hour), node("y"))}, 0, "b", 0},
		{"young before old", set(1, 0), []*corev1.Pod{pod("a", ready(time.Hour)), pod("b", ready(time.Minute))}, 0, "b", 0},
		{"waits for minReadySeconds", set(1, 30), []*corev1.Pod{pod("a", ready(10*time.Second))}, 0, "", 20 * time.Second},
		{"many at a time", set(2000, 0), nil, Burst, "", time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Plan(tt.rs, tt.pods, now)
			names := ""
			for _, p := range got.Remove {
				names += p.Name
			}
			if got.Create != tt.create || names != tt.remove || got.Again != tt.again {
				t.Errorf("%s: create %d, remove %q, again %v; want %d, %q, %v", tt.name, got.Create, names, got.Again, tt.create, tt.remove, tt.again)
			}
		})
	}
}

func TestCount(t *testing.T) {
	owned := []*corev1.Pod{pod("a", ready(time.Hour)), pod("b", ready(time.Second)), pod("c"), pod("d", deleted),
		pod("e", phase(corev1.PodFailed))}
	owned[2].Labels = nil
	if got, want := Count(set(3, 30), owned, now),
		(Counts{Replicas: 3, FullyLabeled: 2, Ready: 2, Available: 1, Terminating: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
