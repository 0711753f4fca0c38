// Package serviceaccount keeps a service account named default in every live namespace.
//
//	reads   Namespace, ServiceAccount
//	writes  ServiceAccount: create
//	rule    every namespace that is not terminating has the service account default
package serviceaccount

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const name = "default"

// Controller is the loop: wake on a Namespace, or when a default account goes.
var Controller = &loop.Controller[*corev1.Namespace]{
	Name:      "serviceaccount",
	For:       core.Namespaces,
	Wake:      []loop.Wake{{Kind: core.ServiceAccounts, Keys: gone}},
	Writes:    []resource.Kind{core.ServiceAccounts},
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, ns *corev1.Namespace) (time.Duration, error) {
	if ns.Status.Phase == corev1.NamespaceTerminating || ns.DeletionTimestamp != nil {
		return 0, nil
	}
	if resource.Get(c, core.ServiceAccounts, ns.Name, name) != nil {
		return 0, nil
	}
	_, err := c.Create(ctx, core.ServiceAccounts, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name}})
	if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return 0, nil
	}
	return 0, err
}

func gone(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	if c.New == nil && c.Old.GetName() == name {
		wake("", c.Old.GetNamespace())
	}
}
