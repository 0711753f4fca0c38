package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// namespaceLifecycle keeps new content out of namespaces that are missing or on their way out, and the
// namespaces that the cluster cannot do without from being deleted.
func namespaceLifecycle(ctx context.Context, r *Request) error {
	if r.Of("", "namespaces") {
		if r.On("", "namespaces", Delete) && immortal(r.Name) {
			return apierrors.NewForbidden(r.GR(), r.Name, errors.New("this namespace may not be deleted"))
		}
		return nil
	}
	changes := r.Op == Delete || r.Op == Update && r.Features.AtLeast(37)
	if r.Namespace == "" || changes || r.Of("authorization.k8s.io", "localsubjectaccessreviews") {
		return nil
	}
	ns, err := NamespaceOf(ctx, r)
	if apierrors.IsNotFound(err) && r.Op == Create && !r.DryRun && r.Live != nil {
		ns, err = comingNamespace(ctx, r)
	}
	if err != nil {
		return err
	}
	if r.Op != Create || ns.Status.Phase != corev1.NamespaceTerminating && ns.DeletionTimestamp == nil {
		return nil
	}
	refused := apierrors.NewForbidden(r.GR(), r.name(),
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", r.Namespace))
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace",
		Message: fmt.Sprintf("namespace %s is being terminated", r.Namespace)})
	return refused
}

// namespaceWait is the time that a create gives a missing namespace to appear, the same as upstream's: clients rely on a namespace that
// another client makes at that moment. A dry run makes nothing that could come too late: who asks of a thousand objects of a namespace to
// be made has an answer at once.
const namespaceWait = 50 * time.Millisecond

// comingNamespace reads the request's namespace once more after a while.
func comingNamespace(ctx context.Context, r *Request) (*corev1.Namespace, error) {
	timer := time.NewTimer(namespaceWait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
	}
	return Live(ctx, r, core.Namespaces, "", r.Namespace)
}

func immortal(name string) bool {
	switch name {
	case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
		return true
	}
	return false
}

// NamespaceOf reads the request's namespace, from the store when the view does not hold it (yet).
func NamespaceOf(ctx context.Context, r *Request) (*corev1.Namespace, error) {
	if ns := resource.Get(r.Read, core.Namespaces, "", r.Namespace); ns != nil {
		return ns, nil
	}
	return Live(ctx, r, core.Namespaces, "", r.Namespace)
}

// Live reads one object from the store; a missing one is a NotFound error.
func Live[T resource.Object](ctx context.Context, r *Request, d *resource.Def[T], ns, name string) (obj T, err error) {
	if r.Live != nil {
		o, err := r.Live(ctx, d, ns, name)
		if err != nil && !apierrors.IsNotFound(err) {
			return obj, err
		}
		if t, ok := o.(T); ok && err == nil {
			return t, nil
		}
	}
	return obj, apierrors.NewNotFound(d.Info().GR(), name)
}
