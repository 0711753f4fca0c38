package health

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// An object whose status has no word on the whole is judged by what was made for it. A part that has only just failed is none yet, and
// the object is looked at again when it is one, though nothing changes.
func TestParts(t *testing.T) {
	widgets := &resource.Def[*corev1.ConfigMap]{GVK: schema.GroupVersionKind{Group: "x.io", Version: "v1", Kind: "Widget"},
		Plural:     "widgets",
		Namespaced: true}
	obj := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"replicas": int64(1)},
		"metadata": map[string]any{"namespace": "a", "name": "w", "uid": "w-uid"}}}
	part := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "w", UID: "d", Generation: 1,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "x.io/v1", Kind: "Widget", Name: "w", UID: "w-uid", Controller: new(true)}}},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, UnavailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse,
				LastTransitionTime: metav1.NewTime(noon)}}}}
	v := view.New(kinds.NewSet())
	v.Replace(kinds.Deployments, 1, []resource.Object{part})
	for _, tt := range []struct {
		name  string
		after time.Duration
		says  string
		again bool
	}{{"just now", 10 * time.Second, "", true}, {"for long", time.Hour, "has a part that is not well", false}} {
		t.Run(tt.name, func(t *testing.T) {
			w := &converge.World{Read: v.Snapshot(), Kinds: kinds.NewSet(), Now: noon.Add(tt.after), Rules: own()}
			if got := w.Health(widgets, obj).Says; got != tt.says {
				t.Errorf("it %q, want %q", got, tt.says)
			}
			if again := !w.Until.IsZero(); again != tt.again {
				t.Errorf("it is looked at again: %v", again)
			}
		})
	}
}
