package token

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// The keys of User.Extra that verification sets.
const (
	ExtraCredential = "authentication.kubernetes.io/credential-id"
	ExtraPodName    = "authentication.kubernetes.io/pod-name"
	ExtraPodUID     = "authentication.kubernetes.io/pod-uid"
	ExtraNodeName   = "authentication.kubernetes.io/node-name"
	ExtraNodeUID    = "authentication.kubernetes.io/node-uid"
)

// graceful is the time after its deletion in which an object still vouches for tokens, so that what is being shut
// down can finish.
const graceful = 60 * time.Second

var (
	errExpired = errors.New("service account token has expired")
	errEarly   = errors.New("service account token is not valid yet")
	errInvalid = errors.New("service account token has been invalidated")
)

// Verify tells whose token it is. ours is false when it is not a token of this issuer; with ours, err says
// why it is not good. granted are those of the wanted audiences that the token is for.
func (s *Signer) Verify(text string, read resource.Reader, wanted []string) (u *auth.User, granted []string, ours bool, err error) {
	v, ours, err := s.open(text)
	if err != nil || !ours {
		return nil, nil, ours, err
	}
	if v.legacy != nil {
		granted = wanted
		if u, err = v.legacy.user(text, read, s.cfg.Used); err == nil && len(intersect(wanted, s.cfg.Audiences)) == 0 {
			err = audienceError(nil, wanted)
		}
		return u, granted, true, err
	}
	c := v.claims
	if granted = intersect(c.Audience, wanted); len(granted) == 0 {
		return nil, nil, true, audienceError(c.Audience, wanted)
	}
	if err := c.check(s.cfg.Now(), read); err != nil {
		return nil, nil, true, err
	}
	return c.user(), granted, true, nil
}

func audienceError(have, wanted []string) error {
	return fmt.Errorf("token audiences %q is invalid for the target audiences %q", have, wanted)
}

// open checks the signature.
func (s *Signer) open(text string) (v *verified, ours bool, err error) {
	key := sha256.Sum256([]byte(text))
	r := s.now.Load()
	if v = r.seen.get(key); v != nil {
		return v, true, nil
	}
	switch IssuerOf(text) {
	case s.cfg.Issuer:
		c := &claims{&Claims{}}
		if err := s.parse(r, text, c); err != nil {
			return nil, true, err
		}
		v = &verified{claims: c.Claims}
	case legacyIssuer:
		c := &legacyClaims{}
		if err := s.parse(r, text, c); err != nil {
			return nil, true, err
		}
		v = &verified{legacy: c}
	default:
		return nil, false, nil
	}
	r.seen.put(key, v)
	return v, true, nil
}

// parse tries the key that the token names, or all of them when it names none that is known.
func (s *Signer) parse(r *ring, text string, into jwt.Claims) error {
	_, err := s.parser.ParseWithClaims(text, into, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		if k, ok := r.keys[kid]; ok {
			return k, nil
		}
		set := jwt.VerificationKeySet{}
		for _, id := range r.order {
			set.Keys = append(set.Keys, r.keys[id])
		}
		return set, nil
	})
	if err != nil {
		return fmt.Errorf("invalid service account token: %w", err)
	}
	return nil
}

// IssuerOf reads the issuer of a token without believing it; "" when it is no token.
func IssuerOf(text string) string {
	parts := strings.SplitN(text, ".", 4)
	if len(parts) != 3 {
		return ""
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(data, &c) != nil {
		return ""
	}
	return c.Issuer
}

// check looks at the time and at what the token is bound to.
func (c *Claims) check(now time.Time, read resource.Reader) error {
	switch {
	case c.Expiry != 0 && now.Unix() > c.Expiry:
		return errExpired
	case c.NotBefore != 0 && now.Unix() < c.NotBefore:
		return errEarly
	}
	b, since := &c.Bound, now.Add(-graceful)
	sa := resource.Get(read, core.ServiceAccounts, b.Namespace, b.ServiceAccount.Name)
	switch {
	case sa == nil:
		return fmt.Errorf("serviceaccounts %q not found", b.ServiceAccount.Name)
	case gone(sa, since):
		return fmt.Errorf("service account %s/%s has been deleted", b.Namespace, b.ServiceAccount.Name)
	case string(sa.UID) != b.ServiceAccount.UID:
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", sa.UID, b.ServiceAccount.UID)
	}
	switch {
	case b.Secret != nil:
		return b.Secret.alive(read, core.Secrets, b.Namespace, since)
	case b.Pod != nil:
		return b.Pod.alive(read, core.Pods, b.Namespace, since)
	case b.Node != nil:
		return b.Node.alive(read, core.Nodes, "", since)
	}
	return nil
}

func (r *Ref) alive(read resource.Reader, k resource.Kind, ns string, since time.Time) error {
	obj := read.Lookup(k, ns, r.Name)
	if obj == nil || gone(obj, since) || string(obj.GetUID()) != r.UID {
		return errInvalid
	}
	return nil
}

func gone(obj metav1.Object, since time.Time) bool {
	t := obj.GetDeletionTimestamp()
	return t != nil && t.Time.Before(since)
}

func (c *Claims) user() *auth.User {
	b := &c.Bound
	u := &auth.User{Name: auth.ServiceAccountName(b.Namespace, b.ServiceAccount.Name), UID: b.ServiceAccount.UID,
		Groups: auth.ServiceAccountGroups(b.Namespace), Extra: map[string][]string{}}
	set := func(key, value string) {
		if value != "" {
			u.Extra[key] = []string{value}
		}
	}
	if c.ID != "" {
		set(ExtraCredential, "JTI="+c.ID)
	}
	if b.Pod != nil {
		set(ExtraPodName, b.Pod.Name)
		set(ExtraPodUID, b.Pod.UID)
	}
	if b.Node != nil {
		set(ExtraNodeName, b.Node.Name)
		set(ExtraNodeUID, b.Node.UID)
	}
	return u
}

// intersect returns those of the wanted audiences that are had, each as often as it is wanted.
func intersect(had, wanted []string) (both []string) {
	for _, x := range wanted {
		if slices.Contains(had, x) {
			both = append(both, x)
		}
	}
	return both
}
