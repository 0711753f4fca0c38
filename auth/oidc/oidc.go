// Package oidc knows the tokens of other issuers: JSON web tokens of OpenID Connect providers, as upstream's
// AuthenticationConfiguration or its --oidc flags describe them.
//
//	config.go   the file, its checks, and what the flags come to
//	keys.go     the issuer's keys, fetched when first needed
//	claims.go   from claims to a user
//	elsewhere.go  groups that the issuer leaves to another server
package oidc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/token"
)

// leeway is the clock skew allowed when a token says from when it is good.
const leeway = 5 * time.Minute

// An issuer is one provider whose tokens are believed.
type issuer struct {
	url       string
	audiences []string
	keys      *keySet
	parser    *jwt.Parser
	mapping   *mapping
	elsewhere *elsewhere // nil: groups are no claim
	now       func() time.Time
}

// Issuers knows the tokens of several issuers. It implements authn.Tokens and is safe for concurrent use.
type Issuers struct{ byURL map[string]*issuer }

// Token tells whose token it is; ok is false when it comes from none of the issuers.
func (s *Issuers) Token(ctx context.Context, text string, wanted []string) (*auth.User, []string, bool, error) {
	i := s.byURL[token.IssuerOf(text)]
	if i == nil {
		return nil, nil, false, nil
	}
	u, err := i.user(ctx, text)
	if err != nil {
		return nil, nil, false, fmt.Errorf("oidc: %w", err)
	}
	return u, wanted, true, nil
}

func (i *issuer) user(ctx context.Context, text string) (*auth.User, error) {
	claims, err := i.verified(ctx, text)
	if err != nil {
		return nil, err
	}
	if i.elsewhere != nil {
		if err := i.elsewhere.add(ctx, claims); err != nil {
			return nil, fmt.Errorf("could not expand distributed claims: %w", err)
		}
	}
	return i.mapping.user(ctx, claims)
}

// verified returns the claims of a token that the issuer signed for this cluster, and that is good now.
func (i *issuer) verified(ctx context.Context, text string) (jwt.MapClaims, error) {
	claims := jwt.MapClaims{}
	_, err := i.parser.ParseWithClaims(text, claims, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		keys, err := i.keys.find(ctx, id)
		return jwt.VerificationKeySet{Keys: keys}, err
	})
	if err != nil {
		return nil, fmt.Errorf("verify token: %w", err)
	}
	if err := i.timely(claims); err != nil {
		return nil, err
	}
	audience, err := claims.GetAudience()
	if err != nil || !slices.ContainsFunc(audience, func(a string) bool { return slices.Contains(i.audiences, a) }) {
		return nil, fmt.Errorf("verify token: expected audience in %q got %q", i.audiences, []string(audience))
	}
	return claims, nil
}

// timely checks the times that the token tells: an end is needed.
func (i *issuer) timely(c jwt.MapClaims) error {
	now := i.now()
	end, err := c.GetExpirationTime()
	if err != nil || end == nil {
		return errors.New("verify token: it tells no time of expiry")
	}
	if !now.Before(end.Time) {
		return fmt.Errorf("verify token: it expired at %s", end.UTC().Format(time.RFC3339))
	}
	from, err := c.GetNotBefore()
	if err != nil || from != nil && now.Add(leeway).Before(from.Time) {
		return errors.New("verify token: it is not good yet")
	}
	return nil
}
