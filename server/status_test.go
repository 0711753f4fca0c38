package server_test

import (
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

var attachments = &resource.Def[*storage.VolumeAttachment]{GVK: storage.SchemeGroupVersion.WithKind("VolumeAttachment"),
	Plural: "volumeattachments", Namespaced: true, Status: true, Ways: resource.Ways{StatusResets: []string{"metadata"}}}

// TestStatusAndMetadata: what of the metadata a write of the status changes.
func TestStatusAndMetadata(t *testing.T) {
	w := start(t, func(c *server.Config) {
		c.Kinds = resource.NewSet(append(c.Kinds.All(), attachments)...)
		c.View = view.NewWith(c.Kinds, view.Config{})
	})
	for _, c := range []struct {
		kind                resource.Kind
		obj                 resource.Object
		labels, annotations bool
	}{
		{pods, &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, true, true},
		{deployments, &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, false, true},
		{attachments, &storage.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, false, false},
	} {
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
	}
}
