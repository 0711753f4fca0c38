package server_test

import (
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kind "github.com/kloop-dev/kloop/kinds/apps"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

// A patch that names a version which is served no longer is filled in as that version was.
func TestPatchInEarlyVersion(t *testing.T) {
	w := start(t, func(c *server.Config) {
		c.Kinds = resource.NewSet(namespaces, kind.Deployments)
		c.View = view.NewWith(c.Kinds, view.Config{})
	})
	labels := map[string]string{"a": "b"}
	create(w, kind.Deployments, &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: apps.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: core.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: core.PodSpec{Containers: []core.Container{{Name: "c", Image: "i"}}}}}})
	for _, c := range []struct{ patch, label string }{
		{`{"apiVersion":"apps/v1beta2"}`, ""},
		{`{"apiVersion":"apps/v1beta1","metadata":{"labels":{"a":"mine"}}}`, "mine"},
		{`{"metadata":{"labels":null}}`, ""},
		{`{"apiVersion":"apps/v1beta1"}`, "b"},
	} {
		if got, err := w.merge(kind.Deployments, "d", c.patch); err != nil || got.GetLabels()["a"] != c.label {
			t.Errorf("%s: %v, %v", c.patch, got, err)
		}
	}
}
