package server

import (
	"context"

	core "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// released says that an update took away the last thing that held an object under deletion back.
func released(k resource.Kind, obj, old resource.Object) bool {
	if old.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 {
		return false
	}
	if g := old.GetDeletionGracePeriodSeconds(); g != nil && *g > 0 {
		return false
	}
	if ns, ok := obj.(*core.Namespace); ok && isNamespaces(k) {
		return len(ns.Spec.Finalizers) == 0
	}
	return true
}

// release removes such an object. The answer is the object as the caller wanted it.
func (s *Server) release(ctx context.Context, r *Request, obj resource.Object, cur *view.Entry) (*view.Entry, error) {
	obj.SetResourceVersion(cur.Object.GetResourceVersion())
	if _, _, err := s.deleteNow(ctx, r, cur); err != nil {
		return nil, err
	}
	return view.NewEntry(r.Kind, cur.Rev, obj), nil
}

// deleteNamespace marks a namespace as terminating; it goes when its content and finalizers are gone.
func (s *Server) deleteNamespace(ctx context.Context, r *Request, obj resource.Object, cur *view.Entry) (*view.Entry, bool, error) {
	ns, ok := obj.(*core.Namespace)
	if !ok {
		return s.deleteNow(ctx, r, cur)
	}
	if ns.DeletionTimestamp == nil || ns.Status.Phase != core.NamespaceTerminating {
		if ns.DeletionTimestamp == nil {
			now := s.stamp()
			ns.DeletionTimestamp = &now
		}
		ns.Status.Phase = core.NamespaceTerminating
		e, err := s.mute(ctx, r, ns, cur)
		if err != nil || len(ns.Spec.Finalizers) > 0 || len(ns.Finalizers) > 0 {
			return e, false, err
		}
		return s.deleteNow(ctx, r, e)
	}
	if len(ns.Spec.Finalizers) > 0 || len(ns.Finalizers) > 0 {
		return cur, false, nil
	}
	return s.deleteNow(ctx, r, cur)
}

func isNamespaces(k resource.Kind) bool { return is(k, "", "namespaces") }

// is says whether k is the kind of the group and plural.
func is(k resource.Kind, group, plural string) bool {
	i := k.Info()
	return i.Plural == plural && i.GVK.Group == group
}
