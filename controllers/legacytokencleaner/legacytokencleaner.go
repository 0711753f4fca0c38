// Package legacytokencleaner forgets tokens in Secrets that nobody has used for a year.
//
//	reads   Secret of the type kubernetes.io/service-account-token, ServiceAccount, Pod, ConfigMap of the tracking
//	writes  Secret: the label kubernetes.io/legacy-token-invalid-since, delete
//	rule    a token that was made for an account by itself, and that neither a pod nor anybody else has used for a year,
//	        becomes invalid, and goes a year later (KEP-2799)
package legacytokencleaner

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const (
	unused = 365 * 24 * time.Hour
	often  = 24 * time.Hour
)

// Controller is the loop: it looks at every token once a day.
var Controller = &loop.Controller[*corev1.Secret]{
	Name:    "legacy-serviceaccount-token-cleaner",
	For:     kinds.Secrets,
	Skip:    func(s *corev1.Secret) bool { return s.Type != corev1.SecretTypeServiceAccountToken },
	Writes:  []resource.Kind{kinds.Secrets},
	Workers: 1,
	Reconcile: func(ctx context.Context, c *loop.Ctx, s *corev1.Secret) (time.Duration, error) {
		began := tracked(resource.Get(c, kinds.ConfigMaps, metav1.NamespaceSystem, core.LegacyTokenTracking)) // observe
		switch plan(s, began, c.Now(), listed(c, s), mounted(c, s)) {                                         // decide
		case invalidate: // act
			return often, label(ctx, c, s, c.Now())
		case remove:
			return 0, c.Delete(ctx, kinds.Secrets, s)
		}
		return often, nil
	},
}

type verdict int

const (
	keep verdict = iota
	invalidate
	remove
)

// plan judges a token. began is the time at which the tracking began: before that nobody knows who used what.
func plan(s *corev1.Secret, began, now time.Time, listed, mounted bool) verdict {
	if s.DeletionTimestamp != nil || began.IsZero() || now.Sub(began) < unused || !listed || mounted {
		return keep
	}
	last := s.CreationTimestamp.Time
	if used, err := time.Parse(time.DateOnly, s.Labels[core.LegacyTokenLastUsed]); err == nil {
		last = used
	}
	if now.Sub(last) < unused {
		return keep
	}
	at, err := time.Parse(time.DateOnly, s.Labels[core.LegacyTokenInvalidSince])
	switch {
	case err != nil:
		return invalidate
	case now.Sub(at) < unused:
		return keep
	}
	return remove
}

// tracked is the time at which the tracking began; zero: it has not.
func tracked(m *corev1.ConfigMap) time.Time {
	if m == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.DateOnly, m.Data[core.LegacyTokenSince])
	if err != nil {
		return time.Time{}
	}
	return at
}

// listed says whether the account lists the Secret: it was made for it long ago, not by a person.
func listed(read resource.Reader, s *corev1.Secret) bool {
	sa := resource.Get(read, kinds.ServiceAccounts, s.Namespace, s.Annotations[corev1.ServiceAccountNameKey])
	return sa != nil && slices.ContainsFunc(sa.Secrets, func(r corev1.ObjectReference) bool { return r.Name == s.Name })
}

// mounted says whether a pod has the Secret as a volume.
func mounted(read resource.Reader, s *corev1.Secret) bool {
	for _, p := range resource.List(read, kinds.Pods, s.Namespace) {
		for _, v := range p.Spec.Volumes {
			if v.Secret != nil && v.Secret.SecretName == s.Name {
				return true
			}
		}
	}
	return false
}

// label marks the token as invalid from now on.
func label(ctx context.Context, c *loop.Ctx, s *corev1.Secret, now time.Time) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.UID, "resourceVersion": s.ResourceVersion,
		"labels": map[string]string{core.LegacyTokenInvalidSince: now.UTC().Format(time.DateOnly)}}})
	if err != nil {
		return err
	}
	err = c.Patch(ctx, kinds.Secrets, s, client.Patch{Type: types.MergePatchType, Data: data})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
