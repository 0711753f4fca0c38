package gaps

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// wall is a store that forgets.
type wall struct{}

func (wall) Change(context.Context, resource.Kind, []resource.Object, []resource.Object) error {
	return nil
}
func (wall) Watched() bool { return false }

// pods10k is a cache over 10,000 pods of one replica set; every step-th is not ready.
func pods10k(b *testing.B, step int) (*Cache, *corev1.Pod) {
	b.Helper()
	set := kinds.NewSet()
	v := view.New(set)
	at := metav1.NewTime(time.Now().Add(-time.Hour))
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: at, Generation: 1,
			ResourceVersion: "1"}
	}
	n := int32(10_000)
	rs := &appsv1.ReplicaSet{ObjectMeta: meta("web"), Spec: appsv1.ReplicaSetSpec{Replicas: &n},
		Status: appsv1.ReplicaSetStatus{Replicas: n, ReadyReplicas: n - 1, ObservedGeneration: 1}}
	v.Replace(kinds.ReplicaSets, 1, []resource.Object{rs})
	var list []resource.Object
	for i := range int(n) {
		p := &corev1.Pod{ObjectMeta: meta(fmt.Sprintf("web-%d", i)), Spec: corev1.PodSpec{NodeName: "n"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at}}}}
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		if i%step == 0 {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
		}
		list = append(list, p)
	}
	v.Replace(kinds.Pods, 1, list)
	v.Replace(kinds.Nodes, 1, []resource.Object{&corev1.Node{ObjectMeta: meta("n"),
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}})
	return &Cache{Client: &client.Local{View: v, Set: set}, Store: wall{},
		Rules: rules.All(), kick: make(chan struct{}, 1)}, list[1].(*corev1.Pod)
}

// BenchmarkTake is what every change costs while nobody asks.
func BenchmarkTake(b *testing.B) {
	board, p := pods10k(b, 10_000)
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "a"}, {Manager: "kubelet", Subresource: "status"}}
	batch := client.Batch{Changes: []client.Change{{Kind: kinds.Pods, Rev: 2, Old: p, New: p}}}
	for b.Loop() {
		board.take(batch)
	}
}

// BenchmarkFirstLook is the first question after a long calm.
func BenchmarkFirstLook(b *testing.B) {
	for _, step := range []int{10_000, 10} {
		b.Run(fmt.Sprint(10_000/step, " not ready"), func(b *testing.B) {
			board, _ := pods10k(b, step)
			for b.Loop() {
				board.asked = time.Time{}
				if err := board.Refresh(b.Context(), convergence.Gaps); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNextLook is a question after one pod has changed.
func BenchmarkNextLook(b *testing.B) {
	board, p := pods10k(b, 10)
	batch := client.Batch{Changes: []client.Change{{Kind: kinds.Pods, Rev: 2, Old: p, New: p}}}
	var took []time.Duration
	for b.Loop() {
		board.take(batch)
		began := time.Now()
		if err := board.Refresh(b.Context(), convergence.Gaps); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
}
