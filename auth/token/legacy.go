package token

import (
	"crypto/subtle"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

const legacyIssuer = "kubernetes/serviceaccount"

// legacyClaims are the contents of a token kept in a Secret. It never expires and is good for as long as the
// Secret holds it.
type legacyClaims struct {
	Issuer         string `json:"iss"`
	Subject        string `json:"sub"`
	Namespace      string `json:"kubernetes.io/serviceaccount/namespace"`
	SecretName     string `json:"kubernetes.io/serviceaccount/secret.name"`
	ServiceAccount string `json:"kubernetes.io/serviceaccount/service-account.name"`
	UID            string `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

func (c *legacyClaims) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (c *legacyClaims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (c *legacyClaims) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (c *legacyClaims) GetIssuer() (string, error)                   { return c.Issuer, nil }
func (c *legacyClaims) GetSubject() (string, error)                  { return c.Subject, nil }
func (c *legacyClaims) GetAudience() (jwt.ClaimStrings, error)       { return nil, nil }

// Secret makes the token that the named Secret of type kubernetes.io/service-account-token is to hold.
func (s *Signer) Secret(sa *corev1.ServiceAccount, secret string) (string, error) {
	return s.sign(&legacyClaims{Issuer: legacyIssuer, Subject: auth.ServiceAccountName(sa.Namespace, sa.Name),
		Namespace: sa.Namespace, SecretName: secret, ServiceAccount: sa.Name, UID: string(sa.UID)})
}

// user owns the token. used, if set, is called at every use of one that is good.
func (c *legacyClaims) user(text string, read resource.Reader, used func(*corev1.Secret)) (*auth.User, error) {
	secret := resource.Get(read, core.Secrets, c.Namespace, c.SecretName)
	if secret == nil || secret.DeletionTimestamp != nil ||
		subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(text)) != 1 {
		return nil, errInvalid
	}
	if secret.Labels[core.LegacyTokenInvalidSince] != "" {
		return nil,
			fmt.Errorf(
				"the token in secret %s/%s for service account %s/%s has been marked invalid: use tokens from the TokenRequest API, "+
					"or remove the label %s from the secret",
				c.Namespace, c.SecretName, c.Namespace, c.ServiceAccount, core.LegacyTokenInvalidSince)
	}
	sa := resource.Get(read, core.ServiceAccounts, c.Namespace, c.ServiceAccount)
	switch {
	case sa == nil:
		return nil, fmt.Errorf("serviceaccounts %q not found", c.ServiceAccount)
	case sa.DeletionTimestamp != nil:
		return nil, fmt.Errorf("service account %s/%s has been deleted", c.Namespace, c.ServiceAccount)
	case string(sa.UID) != c.UID:
		return nil, fmt.Errorf("service account UID (%s) does not match claim (%s)", sa.UID, c.UID)
	}
	if used != nil {
		used(secret)
	}
	return &auth.User{Name: auth.ServiceAccountName(c.Namespace, c.ServiceAccount), UID: c.UID,
		Groups: auth.ServiceAccountGroups(c.Namespace)}, nil
}
