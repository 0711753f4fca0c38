// Package serviceaccounttoken fills the Secrets that people make to hold a service account's token, and removes those
// whose account is gone.
//
//	reads   Secret of the type kubernetes.io/service-account-token, the ServiceAccount that it names
//	writes  Secret: data, the annotation with the account's uid, delete; ServiceAccount: secrets
//	rule    such a Secret holds a token of its account, the cluster's CA and its namespace, or it goes; no account
//	        lists one that is gone
package serviceaccounttoken

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A Signer makes the token that the named Secret is to hold: one that is good as long as the Secret holds it.
type Signer interface {
	Secret(sa *corev1.ServiceAccount, secret string) (string, error)
}

// Controller returns the loop: wake on a token's Secret and on the accounts.
func Controller(sign Signer, rootCA []byte) *loop.Controller[*corev1.Secret] {
	t := tokens{sign, rootCA}
	return &loop.Controller[*corev1.Secret]{
		Name:      "serviceaccount-token",
		For:       kinds.Secrets,
		Skip:      func(s *corev1.Secret) bool { return s.Type != corev1.SecretTypeServiceAccountToken },
		Wake:      []loop.Wake{{Kind: kinds.ServiceAccounts, Keys: ofAccount}},
		Writes:    []resource.Kind{kinds.Secrets, kinds.ServiceAccounts},
		Reconcile: t.reconcile,
		Gone:      unlist,
	}
}

// ofAccount wakes the tokens of an account that came, went or was replaced.
func ofAccount(c client.Change, read resource.Reader, wake func(ns, name string)) {
	sa := c.Object()
	if c.Old != nil && c.New != nil && c.Old.GetUID() == c.New.GetUID() {
		return
	}
	for _, s := range resource.List(read, kinds.Secrets, sa.GetNamespace()) {
		if s.Type == corev1.SecretTypeServiceAccountToken && s.Annotations[corev1.ServiceAccountNameKey] == sa.GetName() {
			wake(s.Namespace, s.Name)
		}
	}
}

type tokens struct {
	sign   Signer
	rootCA []byte
}

func (t tokens) reconcile(ctx context.Context, c *loop.Ctx, s *corev1.Secret) (time.Duration, error) {
	if s.DeletionTimestamp != nil {
		return 0, nil
	}
	sa, err := account(ctx, c, s) // observe
	if err != nil {
		return 0, err
	}
	if sa == nil {
		return 0, c.Delete(ctx, kinds.Secrets, s)
	}
	next, err := t.plan(s, sa) // decide
	if err != nil || next == nil {
		return 0, err
	}
	return 0, c.Update(ctx, kinds.Secrets, next) // act
}

// account is the service account that the Secret is of; nil: there is none, or another of that name. It asks the server
// before it says so: the Secret goes then.
func account(ctx context.Context, c *loop.Ctx, s *corev1.Secret) (*corev1.ServiceAccount, error) {
	name, uid := s.Annotations[corev1.ServiceAccountNameKey], s.Annotations[corev1.ServiceAccountUIDKey]
	good := func(sa *corev1.ServiceAccount) bool { return sa != nil && (uid == "" || uid == string(sa.UID)) }
	if sa := resource.Get(c, kinds.ServiceAccounts, s.Namespace, name); good(sa) {
		return sa, nil
	}
	obj, err := c.Client().Get(ctx, kinds.ServiceAccounts, s.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if sa := obj.(*corev1.ServiceAccount); good(sa) {
		return sa, nil
	}
	return nil, nil
}

// plan returns the Secret as it should be, or nil when it is.
func (t tokens) plan(s *corev1.Secret, sa *corev1.ServiceAccount) (*corev1.Secret, error) {
	next := resource.Clone(s)
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, corev1.ServiceAccountUIDKey, string(sa.UID))
	if len(t.rootCA) > 0 {
		next.Data[corev1.ServiceAccountRootCAKey] = t.rootCA
	}
	if len(next.Data[corev1.ServiceAccountNamespaceKey]) == 0 {
		next.Data[corev1.ServiceAccountNamespaceKey] = []byte(s.Namespace)
	}
	if len(next.Data[corev1.ServiceAccountTokenKey]) == 0 {
		token, err := t.sign.Secret(sa, s.Name)
		if err != nil {
			return nil, err
		}
		next.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	if maps.Equal(next.Annotations, s.Annotations) && maps.EqualFunc(next.Data, s.Data, bytes.Equal) {
		return nil, nil
	}
	return next, nil
}

// unlist takes a Secret that is gone from the accounts that list it. Accounts of today's clusters list none.
func unlist(ctx context.Context, c *loop.Ctx, key loop.Key) (time.Duration, error) {
	gone := func(r corev1.ObjectReference) bool { return r.Name == key.Name }
	for _, sa := range resource.List(c, kinds.ServiceAccounts, key.Namespace) {
		if !slices.ContainsFunc(sa.Secrets, gone) || sa.DeletionTimestamp != nil {
			continue
		}
		next := resource.Clone(sa)
		next.Secrets = slices.DeleteFunc(next.Secrets, gone)
		if err := c.Update(ctx, kinds.ServiceAccounts, next); err != nil && !apierrors.IsNotFound(err) {
			return 0, err
		}
	}
	return 0, nil
}
