package resource_test

import (
	"math"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
)

func TestSeconds(t *testing.T) {
	const most = math.MaxInt64 / time.Second * time.Second
	for n, want := range map[int64]time.Duration{0: 0, 30: 30 * time.Second, -5: -5 * time.Second, 1 << 62: most, -1 << 63: -most} {
		if got := resource.Seconds(n); got != want {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
}

// TestCutTimes checks that a cut object is what its encoding decodes to.
func TestCutTimes(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)
	at, micro := metav1.NewTime(now), metav1.NewMicroTime(now)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at, DeletionTimestamp: &at},
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", TimeAdded: &at}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{LastHeartbeatTime: at}}}}
	again := &corev1.Node{}
	roundTrip(t, node, again)
	if !equality.Semantic.DeepEqual(node, again) {
		t.Errorf("cut:     %+v\ndecoded: %+v", node, again)
	}
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &micro}}
	back := &coordinationv1.Lease{}
	roundTrip(t, lease, back)
	if !equality.Semantic.DeepEqual(lease, back) {
		t.Errorf("cut:     %+v\ndecoded: %+v", lease.Spec, back.Spec)
	}
	if lease.Spec.RenewTime.Nanosecond() != 123456000 {
		t.Errorf("a MicroTime lost its microseconds: %v", lease.Spec.RenewTime)
	}
}

func roundTrip(t *testing.T, obj interface {
	resource.Object
	Marshal() ([]byte, error)
}, into interface{ Unmarshal([]byte) error }) {
	t.Helper()
	resource.CutTimes(obj)
	data, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := into.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkCutTimes(b *testing.B) {
	at := metav1.Now()
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 2)}, Status: corev1.PodStatus{StartTime: &at,
		Conditions: make([]corev1.PodCondition, 5), ContainerStatuses: make([]corev1.ContainerStatus, 2)}}
	for b.Loop() {
		resource.CutTimes(p)
	}
}

func BenchmarkAsRead(b *testing.B) {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 2)}, Status: corev1.PodStatus{
		Conditions: make([]corev1.PodCondition, 5), ContainerStatuses: make([]corev1.ContainerStatus, 2)}}
	kind := &resource.Def[*corev1.Pod]{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Plural: "pods"}
	for b.Loop() {
		resource.AsRead(kind, p)
	}
}
