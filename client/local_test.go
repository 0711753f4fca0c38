package client_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
)

// A loop may ask on any goroutine, so a panic of the server is an error of that request: it must not end the program.
func TestPanicOfTheServer(t *testing.T) {
	l, ctx := &client.Local{}, t.Context() // without a server every request is one
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	for what, ask := range map[string]func() error{
		"get":    func() error { _, err := l.Get(ctx, kinds.Pods, "default", "p"); return err },
		"create": func() error { _, err := l.Create(ctx, kinds.Pods, pod); return err },
		"review": func() error { _, err := l.Create(ctx, kinds.TokenReviews, nil); return err },
		"update": func() error { _, err := l.Update(ctx, kinds.Pods, pod, ""); return err },
		"patch": func() error {
			_, err := l.Patch(ctx, kinds.Pods, "default", "p", client.Patch{Type: types.MergePatchType})
			return err
		},
		"delete":  func() error { return l.Delete(ctx, kinds.Pods, "default", "p", nil) },
		"binding": func() error { _, err := l.Call(ctx, kinds.Pods, "default", "p", "binding", nil); return err },
	} {
		t.Run(what, func(t *testing.T) {
			if err := ask(); !apierrors.IsInternalError(err) {
				t.Errorf("%v", err)
			}
		})
	}
}
