package server_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/testcluster"
	kind "github.com/kloop-dev/kloop/kinds/apps"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// A patch that names a version which is served no longer is filled in as that version was.
func TestPatchInEarlyVersion(t *testing.T) {
	w := start(t, func(c *testcluster.Config) {
		c.Kinds = resource.NewSet(namespaces, kind.Deployments)
		c.View = view.NewWith(c.Kinds, view.Config{})
	})
	labels := map[string]string{"a": "b"}
	create(w, kind.Deployments, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}})
	for _, c := range []struct{ patch, label string }{
		{`{"apiVersion":"apps/v1beta2"}`, ""},
		{`{"apiVersion":"apps/v1beta1","metadata":{"labels":{"a":"mine"}}}`, "mine"},
		{`{"metadata":{"labels":null}}`, ""},
		{`{"apiVersion":"apps/v1beta1"}`, "b"},
	} {
		t.Run(c.patch, func(t *testing.T) {
			if got, err := w.merge(kind.Deployments, "d", c.patch); err != nil || got.GetLabels()["a"] != c.label {
				t.Errorf("%s: %v, %v", c.patch, got, err)
			}
		})
	}
}
