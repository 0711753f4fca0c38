// Package namespaces has what the kind Namespace needs of the front door: a namespace under deletion is terminating until its content
// and the finalizers in its spec are gone.
package namespaces

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

// Extension is for namespaces.
func Extension(c *server.Core) server.Extension {
	return server.Extension{Resource: corev1.Resource("namespaces"), OwnNamespace: true,
		Delete: extension{c}.delete, Failed: "Precondition failed",
		Held: func(obj resource.Object) bool {
			ns, ok := obj.(*corev1.Namespace)
			return ok && len(ns.Spec.Finalizers) > 0
		}}
}

type extension struct{ *server.Core }

// delete marks a namespace as terminating; it goes when its content and finalizers are gone.
func (s extension) delete(ctx context.Context, r *server.Request, opts *metav1.DeleteOptions,
	obj resource.Object, cur *view.Entry) (*view.Entry, bool, error) {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return s.DeleteNow(ctx, r, cur)
	}
	if ns.DeletionTimestamp == nil || ns.Status.Phase != corev1.NamespaceTerminating {
		if ns.DeletionTimestamp == nil {
			now := s.Stamp()
			ns.DeletionTimestamp = &now
			ns.Finalizers = s.Collected(r.Kind, ns, opts)
		}
		ns.Status.Phase = corev1.NamespaceTerminating
		e, err := s.Overwrite(ctx, r, ns, cur)
		if err != nil || len(ns.Spec.Finalizers) > 0 || len(ns.Finalizers) > 0 {
			return e, false, err
		}
		return s.DeleteNow(ctx, r, e)
	}
	if len(ns.Spec.Finalizers) > 0 || len(ns.Finalizers) > 0 {
		return cur, false, nil
	}
	return s.DeleteNow(ctx, r, cur)
}
