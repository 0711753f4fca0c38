package apps_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/apps"
	"github.com/kloop-dev/kloop/resource"
)

// An empty selector is refused in the words of upstream, which calls a ReplicaSet a deployment.
func TestEmptySelector(t *testing.T) {
	none, pod := &metav1.LabelSelector{}, corev1.PodTemplateSpec{}
	for _, tt := range []struct {
		kind resource.Kind
		obj  resource.Object
		want string
	}{
		{apps.Deployments, &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: none, Template: pod}}, "deployment"},
		{apps.ReplicaSets, &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: none, Template: pod}}, "deployment"},
		{apps.DaemonSets, &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: none, Template: pod}}, "daemonset"},
		{apps.StatefulSets, &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: none, Template: pod}}, "statefulset"},
	} {
		t.Run(tt.kind.Info().Plural, func(t *testing.T) {
			said := ""
			for _, err := range tt.kind.Check(nil, nil, "", tt.obj, nil) {
				if err.Field == "spec.selector" {
					said += err.Detail
				}
			}
			if want := "empty selector is invalid for " + tt.want; said != want {
				t.Errorf("%s: %q, want %q", tt.kind.Info().Plural, said, want)
			}
		})
	}
}
