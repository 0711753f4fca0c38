// Package rootca publishes the cluster's CA certificate to every namespace, where pods mount it.
//
//	reads   Namespace, ConfigMap
//	writes  ConfigMap kube-root-ca.crt: create, update
//	rule    every namespace that is not terminating has kube-root-ca.crt with exactly the CA's certificate
package rootca

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const (
	name        = "kube-root-ca.crt"
	file        = "ca.crt"
	description = "kubernetes.io/description"
	about       = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal " +
		"service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

// Controller returns the loop that publishes ca, in PEM: wake on a Namespace or its copy.
func Controller(ca []byte) *loop.Controller[*corev1.Namespace] {
	return &loop.Controller[*corev1.Namespace]{
		Name:   "root-ca-publisher",
		For:    core.Namespaces,
		Wake:   []loop.Wake{{Kind: core.ConfigMaps, Keys: touched}},
		Writes: []resource.Kind{core.ConfigMaps},
		Reconcile: func(ctx context.Context, c *loop.Ctx, ns *corev1.Namespace) (time.Duration, error) {
			return 0, reconcile(ctx, c, ns, map[string]string{file: string(ca)})
		},
	}
}

func reconcile(ctx context.Context, c *loop.Ctx, ns *corev1.Namespace, want map[string]string) error {
	if ns.Status.Phase == corev1.NamespaceTerminating || ns.DeletionTimestamp != nil {
		return nil
	}
	cur := resource.Get(c, core.ConfigMaps, ns.Name, name)
	switch {
	case cur == nil:
		_, err := c.Create(ctx, core.ConfigMaps, &corev1.ConfigMap{Data: want,
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name, Annotations: map[string]string{description: about}}})
		if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return err
	case maps.Equal(cur.Data, want) && cur.Annotations[description] == about:
		return nil
	}
	next := resource.Clone(cur)
	next.Data = want
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, description, about)
	return c.Update(ctx, core.ConfigMaps, next)
}

func touched(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	if obj := c.Object(); obj.GetName() == name {
		wake("", obj.GetNamespace())
	}
}
