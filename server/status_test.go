package server_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

var attachments = &resource.Def[*storagev1.VolumeAttachment]{GVK: storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"),
	Plural: "volumeattachments", Namespaced: true, Status: true, Quirks: resource.Quirks{StatusResets: []string{"metadata"}}}

// TestStatusAndMetadata: what of the metadata a write of the status changes.
func TestStatusAndMetadata(t *testing.T) {
	w := start(t, func(c *testcluster.Config) {
		c.Kinds = resource.NewSet(append(c.Kinds.All(), attachments)...)
		c.View = view.NewWith(c.Kinds, view.Config{})
	})
	for _, c := range []struct {
		kind                resource.Kind
		obj                 resource.Object
		labels, annotations bool
	}{
		{pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, true, true},
		{deployments, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, false, true},
		{attachments, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, false, false},
	} {
		t.Run(c.kind.Info().Plural, func(t *testing.T) {
			obj := resource.Clone(create(w, c.kind, c.obj))
			obj.SetLabels(map[string]string{"new": "1"})
			obj.SetAnnotations(map[string]string{"new": "1"})
			e, _, err := w.Update(t.Context(), sub(w.ask(c.kind, "x"), "status"), obj)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Object; (got.GetLabels() != nil) != c.labels || (got.GetAnnotations() != nil) != c.annotations {
				t.Errorf("%s: labels %v, annotations %v", c.kind.Info().Plural, got.GetLabels(), got.GetAnnotations())
			}
		})
	}
}
