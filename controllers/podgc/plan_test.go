package podgc

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlan(t *testing.T) {
	var all []*corev1.Pod
	for i := range 5 {
		all = append(all, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), CreationTimestamp: metav1.Unix(int64(100-i), 0)},
			Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}})
	}
	all = append(all, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "u", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "runs"}, Spec: corev1.PodSpec{NodeName: "n"}})
	all[2].Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	for most, want := range map[int]string{5: "u", 3: "u24", 0: "u24310"} {
		got := ""
		for _, p := range plan(all, most) {
			got += p.Name
		}
		if got != want {
			t.Errorf("with room for %d: %q, want %q", most, got, want)
		}
	}
}
