// Package tokencleaner forgets bootstrap tokens that have expired.
//
//	reads   Secret of the type bootstrap.kubernetes.io/token in kube-system
//	writes  Secret: delete
//	rule    a token goes when its expiration has come, or can't be read; one without an expiration stays
package tokencleaner

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a token, and when it expires.
var Controller = &loop.Controller[*corev1.Secret]{
	Name:   "token-cleaner",
	For:    kinds.Secrets,
	Writes: []resource.Kind{kinds.Secrets},
	Skip: func(s *corev1.Secret) bool {
		return s.Namespace != metav1.NamespaceSystem || s.Type != "bootstrap.kubernetes.io/token" || len(s.Data["expiration"]) == 0
	},
	Reconcile: func(ctx context.Context, c *loop.Ctx, s *corev1.Secret) (time.Duration, error) {
		if left := expiry(s).Sub(c.Now()); left > 0 {
			return left, nil
		}
		return 0, c.Delete(ctx, kinds.Secrets, s)
	},
}

// expiry is the time at which the token expires; zero, which is long ago: it does not say in a way that can be read, and nobody takes it.
func expiry(s *corev1.Secret) time.Time {
	at, err := time.Parse(time.RFC3339, string(s.Data["expiration"]))
	if err != nil {
		return time.Time{}
	}
	return at
}
