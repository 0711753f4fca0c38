package plan

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMoments(t *testing.T) {
	pod := func(node string, ready, leaves bool, phase corev1.PodPhase) *corev1.Pod {
		p := &corev1.Pod{}
		p.Spec.NodeName, p.Status.Phase = node, phase
		if ready {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		if leaves {
			p.DeletionTimestamp = &metav1.Time{}
		}
		return p
	}
	waits, runs := pod("", false, false, corev1.PodPending), pod("a", true, false, corev1.PodRunning)
	for _, tt := range []struct {
		name    string
		was, is *corev1.Pod
		want    []string
	}{
		{"new", nil, waits, []string{stepMade}},
		{"new and bound, as those of a daemon", nil, pod("a", false, false, corev1.PodPending), []string{stepMade, stepBound}},
		{"bound", waits, pod("a", false, false, corev1.PodPending), []string{stepBound}},
		{"ready", pod("a", false, false, corev1.PodRunning), runs, []string{stepReady}},
		{"not ready any more", runs, pod("a", false, false, corev1.PodRunning), []string{stepUnready}},
		{"leaves", runs, pod("a", true, true, corev1.PodRunning), []string{stepLeaving}},
		{"leaves still", pod("a", true, true, corev1.PodRunning), pod("a", false, true, corev1.PodRunning), nil},
		{"ended", runs, pod("a", false, false, corev1.PodSucceeded), []string{stepEnded}},
		{"gone", runs, nil, []string{stepGone}},
		{"nothing of note", runs, runs, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := moments(tt.was, tt.is); !slices.Equal(got, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		})
	}
}

func TestFilmIsBounded(t *testing.T) {
	f := film{}
	for range filmSteps + 5 {
		f.shoot(nil, &corev1.Pod{}, Object{"Deployment", "a", "web"}, 1)
	}
	if len(f.steps) != filmSteps || !f.cut {
		t.Errorf("%d steps, cut %v", len(f.steps), f.cut)
	}
}

// TestFilm sees that the steps of a drain add up to what the workload is told to have at the end.
func TestFilm(t *testing.T) {
	f := grown(t, 3, film3)
	r, err := Run(t.Context(), f, Drain("sim-1"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Workloads) == 0 || len(r.Steps) == 0 {
		t.Fatalf("%d workloads, %d steps", len(r.Workloads), len(r.Steps))
	}
	w, least, last := r.Workloads[0], r.Workloads[0].Before, Step{}
	for _, s := range r.Steps {
		if s.Owner != w.Object.String() {
			t.Errorf("a step of %s", s.Owner)
		}
		if s.After < last.After {
			t.Errorf("%+v comes after %+v", s, last)
		}
		least, last = min(least, s.Available), s
	}
	if least != w.Least || last.Available != w.After {
		t.Errorf("the film has least %d and ends with %d, the workload %d and %d", least, last.Available, w.Least, w.After)
	}
}

const film3 = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
`
