package server_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/store"
)

// hasty is a store on which somebody else always removes a key just before the server does.
type hasty struct{ store.Store }

func (h hasty) Write(ctx context.Context, w store.Write) (int64, error) {
	if w.Value == nil {
		if _, err := h.Store.Write(ctx, w); err != nil {
			return 0, err
		}
	}
	return h.Store.Write(ctx, w)
}

// TestDeletedByAnother deletes a pod without grace while its agent, woken by the mark, removes it first: the caller
// asked for the deletion and must not hear that there was nothing to delete.
func TestDeletedByAnother(t *testing.T) {
	w := start(t, func(c *testcluster.Config) { c.Store = hasty{c.Store} })
	create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}})
	e, gone, err := w.Delete(t.Context(), w.ask(pods, "p"), grace(0))
	if err != nil || !gone || e.Object.GetName() != "p" || e.Object.GetDeletionTimestamp() == nil {
		t.Fatalf("entry %v, gone %v, err %v", e, gone, err)
	}
	if w.get(pods, "p") != nil {
		t.Error("the pod is still there")
	}
}
