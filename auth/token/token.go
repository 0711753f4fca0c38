// Package token issues and verifies service account tokens: ES256-signed JWTs with upstream's claims, bound to
// a service account and, if asked, to a pod, secret or node. A token dies with what it is bound to: every
// verification looks at the present state of the cluster, only the signature check is remembered.
package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
)

// Issuer is the default issuer, and the only audience of the API server.
const Issuer = "https://kubernetes.default.svc.cluster.local"

// Claims are the contents of a bound token.
type Claims struct {
	Issuer    string   `json:"iss,omitempty"`
	Subject   string   `json:"sub,omitempty"`
	Audience  []string `json:"aud,omitempty"`
	Expiry    int64    `json:"exp,omitempty"` // seconds since 1970
	NotBefore int64    `json:"nbf,omitempty"`
	IssuedAt  int64    `json:"iat,omitempty"`
	ID        string   `json:"jti,omitempty"`
	Bound     Bound    `json:"kubernetes.io"`
}

// Bound says whose token it is, and what it dies with.
type Bound struct {
	Namespace      string `json:"namespace,omitempty"`
	ServiceAccount Ref    `json:"serviceaccount"`
	Pod            *Ref   `json:"pod,omitempty"`
	Secret         *Ref   `json:"secret,omitempty"`
	Node           *Ref   `json:"node,omitempty"`
	WarnAfter      int64  `json:"warnafter,omitempty"`
}

// A Ref names an object, this very one.
type Ref struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// Config says how tokens are made.
type Config struct {
	Key       crypto.Signer        // signs
	Also      []crypto.PublicKey   // further keys that are believed, after a rotation
	Issuer    string               // "": Issuer
	Audiences []string             // of the API server; nil: the issuer
	Now       func() time.Time     // nil: time.Now
	Used      func(*corev1.Secret) // called at every use of a token that is kept in a Secret; must not block; may be nil
}

// A Signer issues and verifies tokens. Safe for concurrent use.
type Signer struct {
	cfg    Config
	now    atomic.Pointer[ring]
	parser *jwt.Parser
}

// A ring holds the keys of one time. Another one takes its place when they are exchanged.
type ring struct {
	key    crypto.Signer
	method jwt.SigningMethod
	kid    string
	keys   map[string]crypto.PublicKey
	order  []string // kids, the signing key first
	seen   seen
}

// New returns a signer; the key must be an ECDSA P-256 or an RSA key.
func New(cfg Config) (*Signer, error) {
	if cfg.Issuer == "" {
		cfg.Issuer = Issuer
	}
	if cfg.Audiences == nil {
		cfg.Audiences = []string{cfg.Issuer}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Signer{cfg: cfg,
		parser: jwt.NewParser(jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding(), jwt.WithValidMethods([]string{"ES256", "RS256"}))}
	return s, s.Use(cfg.Key, cfg.Also)
}

// Use has key sign from now on, and key and also believed. Keys that can't be used change nothing.
func (s *Signer) Use(key crypto.Signer, also []crypto.PublicKey) (err error) {
	r := &ring{key: key, keys: map[string]crypto.PublicKey{}}
	if r.method, err = methodOf(key.Public()); err != nil {
		return err
	}
	for _, pub := range append([]crypto.PublicKey{key.Public()}, also...) {
		kid, err := keyID(pub)
		if err != nil {
			return err
		}
		if r.keys[kid] == nil {
			r.order = append(r.order, kid)
		}
		r.keys[kid] = pub
	}
	r.kid = r.order[0]
	s.now.Store(r)
	return nil
}

// Audiences returns the audiences of the API server.
func (s *Signer) Audiences() []string { return s.cfg.Audiences }

// Sign makes a token of the claims.
func (s *Signer) Sign(c *Claims) (string, error) { return s.sign(claims{Claims: c}) }

func (s *Signer) sign(c jwt.Claims) (string, error) {
	r := s.now.Load()
	t := jwt.NewWithClaims(r.method, c)
	delete(t.Header, "typ") // upstream's tokens have none
	t.Header["kid"] = r.kid
	text, err := t.SignedString(r.key)
	if err != nil {
		return "", fmt.Errorf("sign a service account token: %w", err)
	}
	return text, nil
}

// claims lets Claims pass for the library's; it validates nothing, verify.go does.
type claims struct{ *Claims }

func (c claims) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (c claims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (c claims) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (c claims) GetIssuer() (string, error)                   { return c.Issuer, nil }
func (c claims) GetSubject() (string, error)                  { return c.Subject, nil }
func (c claims) GetAudience() (jwt.ClaimStrings, error)       { return c.Audience, nil }

// Signs says why a key can't sign tokens.
func Signs(key crypto.Signer) error {
	_, err := methodOf(key.Public())
	return err
}

func methodOf(pub crypto.PublicKey) (jwt.SigningMethod, error) {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		if k.Curve.Params().BitSize == 256 {
			return jwt.SigningMethodES256, nil
		}
	case *rsa.PublicKey:
		return jwt.SigningMethodRS256, nil
	}
	return nil, fmt.Errorf("sign service account tokens: a key of type %T is neither ECDSA P-256 nor RSA", pub)
}

// keyID derives a key's id from its public half, as upstream does.
func keyID(pub crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("name a service account key: %w", err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
