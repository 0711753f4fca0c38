package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/golang-jwt/jwt/v5"

	"github.com/kloop-dev/kloop/auth/token"
)

// maxOthers bounds whose keys are remembered of those that sign claims for an issuer.
const maxOthers = 16

// elsewhere fetches a claim that the issuer's tokens leave to another server: a distributed claim of OpenID Connect Core 1.0,
// section 5.6.2. As upstream, this is done for the groups.
type elsewhere struct {
	claim string
	of    *issuer // whose audiences, algorithms and certificates hold for the others as well

	mu   sync.Mutex
	keys map[string]*keySet // by issuer
}

// A source tells where to fetch a distributed claim.
type source struct{ endpoint, password string }

// add puts the claim among those of a token, if the token says where it stands.
func (e *elsewhere) add(ctx context.Context, claims jwt.MapClaims) error {
	s, err := e.source(claims)
	if err != nil || s.endpoint == "" {
		return err
	}
	text, err := e.get(ctx, s)
	if err != nil {
		return fmt.Errorf("get the claim %q: %w", e.claim, err)
	}
	name := token.IssuerOf(text)
	if name == "" {
		return fmt.Errorf("get the claim %q: %s answers with no token that names its issuer", e.claim, s.endpoint)
	}
	other := *e.of
	other.keys = e.keysOf(name)
	found, err := other.verified(ctx, text)
	if err != nil {
		return fmt.Errorf("the claim %q of %s: %w", e.claim, s.endpoint, err)
	}
	value, ok := found[e.claim]
	if !ok {
		return fmt.Errorf("the token of %s holds no claim %q", s.endpoint, e.claim)
	}
	claims[e.claim] = value
	return nil
}

// source finds where the claim stands; nowhere if the token has it, or says nothing of it.
func (e *elsewhere) source(claims jwt.MapClaims) (s source, err error) {
	if _, ok := claims[e.claim]; ok || claims["_claim_names"] == nil || claims["_claim_sources"] == nil {
		return s, nil
	}
	names, ok1 := claims["_claim_names"].(map[string]any)
	sources, ok2 := claims["_claim_sources"].(map[string]any)
	if !ok1 || !ok2 {
		return s, errors.New("_claim_names and _claim_sources must be objects")
	}
	name, ok := names[e.claim].(string)
	if !ok {
		return s, nil
	}
	at, ok := sources[name].(map[string]any)
	if !ok {
		return s, fmt.Errorf("_claim_names names the source %q, which _claim_sources lacks", name)
	}
	s.endpoint, _ = at["endpoint"].(string) // without one the claim stands in the token in another form
	s.password, _ = at["access_token"].(string)
	return s, nil
}

// get fetches the token that holds the claim.
func (e *elsewhere) get(ctx context.Context, s source) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.endpoint, nil)
	if err != nil {
		return "", err
	}
	if s.password != "" {
		r.Header.Set("Authorization", "Bearer "+s.password)
	}
	resp, err := e.of.keys.client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", s.endpoint, resp.Status)
	}
	return strings.TrimSpace(string(body)), err
}

// keysOf returns the keys of another issuer.
func (e *elsewhere) keysOf(name string) *keySet {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keys[name] == nil {
		for old := range e.keys {
			if len(e.keys) < maxOthers {
				break
			}
			delete(e.keys, old)
		}
		if e.keys == nil {
			e.keys = map[string]*keySet{}
		}
		e.keys[name] = newKeySet(name, wellKnown(name), e.of.keys.client, e.of.now)
	}
	return e.keys[name]
}
