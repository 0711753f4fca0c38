package resource_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kloop-dev/kloop/resource"
)

func TestShallow(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	q := resource.Shallow(p).(*corev1.Pod)
	now := metav1.Now()
	q.SetDeletionTimestamp(&now)
	q.Spec.NodeName = "n"
	if p.DeletionTimestamp != nil || p.Spec.NodeName != "" {
		t.Errorf("the original was changed: %+v", p)
	}
	if &q.Spec.Containers[0] != &p.Spec.Containers[0] {
		t.Error("a typed object was copied deeply")
	}
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "u"}}}
	resource.Shallow(u).SetDeletionTimestamp(&now)
	if u.GetDeletionTimestamp() != nil {
		t.Error("an object without a type was shared")
	}
}
