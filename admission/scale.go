package admission

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
)

// ScaleOf makes the scale subresource of an object; ok is false for kinds without one.
func ScaleOf(k resource.Kind, obj resource.Object) (sc *autoscalingv1.Scale, ok bool) {
	v, ok := resource.ScaleOf(k, obj)
	if !ok {
		return nil, false
	}
	sc = &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp()},
		Spec:   autoscalingv1.ScaleSpec{Replicas: v.Replicas},
		Status: autoscalingv1.ScaleStatus{Replicas: v.Current, Selector: v.Selector},
	}
	sc.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	return sc, true
}
