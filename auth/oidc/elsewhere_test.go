package oidc

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Groups may stand in a token of another issuer, which is fetched with the password that the first token gives.
func TestClaimsElsewhere(t *testing.T) {
	p, q := newProvider(t), newProvider(t)
	k, other := p.add("p"), q.add("q")
	answer := map[string]string{
		"/good":     q.sign("q", other, map[string]any{"groups": []string{"a", "b"}}),
		"/none":     q.sign("q", other, nil),
		"/foreign":  q.sign("q", other, map[string]any{"groups": "a", "aud": "somebody"}),
		"/expired":  q.sign("q", other, map[string]any{"groups": "a", "exp": time.Now().Add(-time.Second).Unix()}),
		"/forged":   q.sign("q", k, map[string]any{"groups": "a"}),
		"/nonsense": "no token",
	}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answer[r.URL.Path]
		if !ok || r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(srv.Close)
	at := func(path string) map[string]any {
		return map[string]any{"_claim_names": map[string]any{"groups": "src"},
			"_claim_sources": map[string]any{"src": map[string]any{"endpoint": srv.URL + path, "access_token": "secret"}}}
	}
	with := func(claims map[string]any, name string, v any) map[string]any {
		claims[name] = v
		return claims
	}
	s := p.must(plain, Options{})
	for name, c := range map[string]struct {
		claims map[string]any
		groups string
		want   string // the error
	}{
		"fetched":          {at("/good"), "[g:a g:b]", ""},
		"there already":    {with(at("/good"), "groups", "own"), "[g:own]", ""},
		"no sources":       {with(at("/good"), "_claim_sources", nil), "[]", ""},
		"of another claim": {with(at("/good"), "_claim_names", map[string]any{"mail": "src"}), "[]", ""},
		"no endpoint":      {with(at("/good"), "_claim_sources", map[string]any{"src": map[string]any{"JWT": "x"}}), "[]", ""},
		"no such source":   {with(at("/good"), "_claim_names", map[string]any{"groups": "else"}), "", `the source "else"`},
		"odd names":        {with(at("/good"), "_claim_names", "groups"), "", "must be objects"},
		"password": {with(at("/good"), "_claim_sources", map[string]any{"src": map[string]any{"endpoint": srv.URL + "/good"}}),
			"", "403"},
		"no claim": {at("/none"), "", "holds no claim"},
		"audience": {at("/foreign"), "", "audience"},
		"expired":  {at("/expired"), "", "expired"},
		"forged":   {at("/forged"), "", "verify token"},
		"nonsense": {at("/nonsense"), "", "no token"},
	} {
		t.Run(name, func(t *testing.T) {
			u, _, ok, err := s.Token(t.Context(), p.sign("p", k, c.claims), nil)
			switch {
			case c.want == "" && (!ok || err != nil || fmt.Sprint(u.Groups) != c.groups):
				t.Errorf("%s: %+v %v", name, u, err)
			case c.want != "" && (ok || err == nil || !strings.Contains(err.Error(), "could not expand distributed claims") ||
				!strings.Contains(err.Error(), c.want)):
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	if n := q.fetched(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}
