package job

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIndexes(t *testing.T) {
	for in, want := range map[string]string{"": "", "0": "0", "0-2,4": "0-2,4", "0,1": "0,1", "1-9": "1-7", "8": "", "x,3": "3"} {
		if got := parseIndexes(in, 8).String(); got != want {
			t.Errorf("%q reads as %q, want %q", in, got, want)
		}
	}
	l := parseIndexes("0-2,5", 10)
	for i, want := range map[int]string{3: "0-3,5", 4: "0-2,4,5", 7: "0-2,5,7", 1: "0-2,5"} {
		if got := l.add(i).String(); got != want {
			t.Errorf("with %d: %q, want %q", i, got, want)
		}
	}
	if got := l.add(3).add(4); got.String() != "0-5" || got.total() != 6 || !got.has(5) || got.has(6) || got.common(parseIndexes("4-9", 10)) != 2 {
		t.Errorf("%v", got)
	}
}

func TestBackoff(t *testing.T) {
	now := time.Unix(10000, 0)
	pod := func(ph corev1.PodPhase, ago time.Duration) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: ph, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-ago))}}}}}}
	}
	fail := func(ago time.Duration) *corev1.Pod { return pod(corev1.PodFailed, ago) }
	for _, tt := range []struct {
		name string
		pods []*corev1.Pod
		want time.Duration
	}{
		{"none", nil, 0},
		{"one", []*corev1.Pod{fail(time.Second)}, 9 * time.Second},
		{"long ago", []*corev1.Pod{fail(time.Minute)}, 0},
		{"three", []*corev1.Pod{fail(time.Minute), fail(30 * time.Second), fail(0)}, 40 * time.Second},
		{"a success between", []*corev1.Pod{fail(time.Minute), pod(corev1.PodSucceeded, 30*time.Second), fail(0)}, 10 * time.Second},
		{"bounded", []*corev1.Pod{fail(0), fail(0), fail(0), fail(0), fail(0), fail(0), fail(0), fail(0), fail(0)}, mostBackoff},
	} {
		if got := backoff(tt.pods, now); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
