package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/kloop-dev/kloop/auth"
)

// provider is an issuer on the loopback.
type provider struct {
	t       *testing.T
	srv     *httptest.Server
	mu      sync.Mutex
	keys    map[string]crypto.Signer
	fetches int
	down    bool
	claims  string // who the discovery document says it is; "": the truth
}

func newProvider(t *testing.T) *provider {
	p := &provider{t: t, keys: map[string]crypto.Signer{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.fetches++
		if p.down {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		name := p.srv.URL
		if p.claims != "" {
			name = p.claims
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": name, "jwks_uri": p.srv.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var set []map[string]string
		for id, k := range p.keys {
			set = append(set, public(id, k))
		}
		set = append(set, map[string]string{"kid": "odd", "kty": "oct"})
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": set})
	})
	p.srv = httptest.NewTLSServer(mux)
	t.Cleanup(p.srv.Close)
	return p
}

func public(id string, k crypto.Signer) map[string]string {
	b64 := func(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
	switch pub := k.Public().(type) {
	case *rsa.PublicKey:
		return map[string]string{"kid": id, "kty": "RSA", "use": "sig", "n": b64(pub.N.Bytes()), "e": b64(big.NewInt(int64(pub.E)).Bytes())}
	case *ecdsa.PublicKey:
		raw, _ := pub.Bytes()
		half := (len(raw) - 1) / 2
		return map[string]string{"kid": id, "kty": "EC", "crv": "P-256", "x": b64(raw[1 : 1+half]), "y": b64(raw[1+half:])}
	}
	return nil
}

func (p *provider) add(id string) crypto.Signer {
	p.t.Helper()
	var k crypto.Signer
	var err error
	if strings.HasPrefix(id, "rsa") {
		k, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		k, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[id] = k
	return k
}

func (p *provider) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, id)
}

func (p *provider) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *provider) fetched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetches
}

// sign makes a token; claims replace those of a good one, nil removes one.
func (p *provider) sign(id string, k crypto.Signer, claims map[string]any) string {
	p.t.Helper()
	c := jwt.MapClaims{"iss": p.srv.URL, "aud": "kloop", "sub": "joe", "exp": time.Now().Add(time.Hour).Unix()}
	for name, v := range claims {
		if c[name] = v; v == nil {
			delete(c, name)
		}
	}
	var method jwt.SigningMethod = jwt.SigningMethodES256
	if _, ok := k.(*rsa.PrivateKey); ok {
		method = jwt.SigningMethodRS256
	}
	tok := jwt.NewWithClaims(method, c)
	tok.Header["kid"] = id
	text, err := tok.SignedString(k)
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// issuer is the configuration of the provider with the given lines below its jwt entry.
func (p *provider) issuers(more string, o Options) (*Issuers, error) {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.srv.Certificate().Raw})
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: " + p.srv.URL +
		"\n    audiences: [kloop, other]\n    audienceMatchPolicy: MatchAny\n    certificateAuthority: |\n      " +
		strings.ReplaceAll(strings.TrimSpace(string(ca)), "\n", "\n      ") + "\n" + more
	c, err := Parse([]byte(text), o)
	if err != nil {
		return nil, err
	}
	return c.Issuers, nil
}

func (p *provider) must(more string, o Options) *Issuers {
	p.t.Helper()
	s, err := p.issuers(more, o)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

const plain = "  claimMappings: {username: {claim: sub, prefix: 'oidc:'}, groups: {claim: groups, prefix: 'g:'}}\n"

func TestTokens(t *testing.T) {
	p := newProvider(t)
	ec, rs := p.add("ec1"), p.add("rsa1")
	s := p.must(plain, Options{})
	for name, c := range map[string]struct {
		token string
		want  string // the error; "": good
	}{
		"good":         {p.sign("ec1", ec, nil), ""},
		"rsa":          {p.sign("rsa1", rs, nil), ""},
		"audiences":    {p.sign("ec1", ec, map[string]any{"aud": []string{"x", "other"}}), ""},
		"no kid":       {p.sign("", ec, nil), ""},
		"audience":     {p.sign("ec1", ec, map[string]any{"aud": "somebody"}), "audience"},
		"no audience":  {p.sign("ec1", ec, map[string]any{"aud": nil}), "audience"},
		"expired":      {p.sign("ec1", ec, map[string]any{"exp": time.Now().Add(-time.Second).Unix()}), "expired"},
		"no end":       {p.sign("ec1", ec, map[string]any{"exp": nil}), "no time of expiry"},
		"early":        {p.sign("ec1", ec, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "not good yet"},
		"a bit early":  {p.sign("ec1", ec, map[string]any{"nbf": time.Now().Add(time.Minute).Unix()}), ""},
		"other's key":  {p.sign("rsa1", ec, nil), "verify token"},
		"no name":      {p.sign("ec1", ec, map[string]any{"sub": nil}), "username claim"},
		"number name":  {p.sign("ec1", ec, map[string]any{"sub": 7}), "username claim"},
		"group":        {p.sign("ec1", ec, map[string]any{"groups": "one"}), ""},
		"groups":       {p.sign("ec1", ec, map[string]any{"groups": []string{"a", "b"}}), ""},
		"number group": {p.sign("ec1", ec, map[string]any{"groups": []any{1}}), "groups claim"},
	} {
		t.Run(name, func(t *testing.T) {
			u, granted, ok, err := s.Token(t.Context(), c.token, []string{"api"})
			switch {
			case c.want == "" && (!ok || err != nil || u.Name != "oidc:joe" || len(granted) != 1):
				t.Errorf("%s: %+v %v %v", name, u, ok, err)
			case c.want != "" && (ok || err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%s: %v", name, err)
			}
			if name == "groups" && !reflect.DeepEqual(u.Groups, []string{"g:a", "g:b"}) {
				t.Errorf("groups %v", u.Groups)
			}
		})
	}
	none := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"iss": p.srv.URL, "aud": "kloop", "sub": "joe",
		"exp": time.Now().Add(time.Hour).Unix()})
	text, _ := none.SignedString(jwt.UnsafeAllowNoneSignatureType)
	if _, _, ok, err := s.Token(t.Context(), text, nil); ok || err == nil {
		t.Error("an unsigned token was believed")
	}
	shared := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": p.srv.URL, "aud": "kloop", "sub": "joe",
		"exp": time.Now().Add(time.Hour).Unix()})
	text, _ = shared.SignedString([]byte("public key as a secret"))
	if _, _, ok, err := s.Token(t.Context(), text, nil); ok || err == nil {
		t.Error("a token with a shared secret was believed")
	}
	for _, foreign := range []string{"", "a.b", "a.b.c", p.sign("ec1", ec, map[string]any{"iss": "https://else"})} {
		if _, _, ok, err := s.Token(t.Context(), foreign, nil); ok || err != nil {
			t.Errorf("%q: %v %v", foreign, ok, err)
		}
	}
	only := p.must(plain, Options{Algorithms: []string{"RS256"}})
	if _, _, ok, _ := only.Token(t.Context(), p.sign("ec1", ec, nil), nil); ok {
		t.Error("an algorithm that is not allowed was believed")
	}
}

func TestKeysRotate(t *testing.T) {
	p := newProvider(t)
	now := time.Now()
	s := p.must(plain, Options{Now: func() time.Time { return now }})
	good := func(token string) bool {
		_, _, ok, _ := s.Token(t.Context(), token, nil)
		return ok
	}
	first := p.add("k1")
	p.set(func() { p.down = true })
	if good(p.sign("k1", first, nil)) || p.fetched() != 1 {
		t.Error("a token was believed without keys")
	}
	p.set(func() { p.down = false })
	if good(p.sign("k1", first, nil)) || p.fetched() != 1 {
		t.Error("fetched again at once")
	}
	now = now.Add(fetchAgain)
	for range 10 {
		if !good(p.sign("k1", first, nil)) {
			t.Error("not fetched again")
		}
	}
	if p.fetched() != 2 {
		t.Errorf("%d fetches", p.fetched())
	}
	p.remove("k1")
	second := p.add("k2")
	if good(p.sign("k2", second, nil)) {
		t.Error("fetched too early")
	}
	now = now.Add(fetchAgain)
	if !good(p.sign("k2", second, nil)) || good(p.sign("k1", first, nil)) {
		t.Error("the keys were not replaced")
	}
	p.set(func() { p.down = true })
	now = now.Add(fetchAgain)
	if good(p.sign("k3", first, nil)) || !good(p.sign("k2", second, nil)) {
		t.Error("keys were lost when the issuer was down")
	}
	f := s.Fetches()
	if len(f) != 1 || f[0].Issuer != p.srv.URL ||
		!f[0].OK.Equal(now.Add(-fetchAgain)) || f[0].Sum == [sha256.Size]byte{} || !f[0].Failed.IsZero() {
		t.Errorf("%+v", f) // that the discovery document is missing is no failure to fetch keys
	}
	p.set(func() { p.down, p.claims = false, "https://else" })
	now = now.Add(fetchAgain)
	if good(p.sign("k3", first, nil)) {
		t.Error("another issuer's document was believed")
	}
}

// TestOneFetch asks for an unknown key many times at once.
func TestOneFetch(t *testing.T) {
	p := newProvider(t)
	k := p.add("k1")
	s := p.must(plain, Options{})
	token := p.sign("k1", k, nil)
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			if _, _, ok, err := s.Token(context.Background(), token, nil); !ok {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if p.fetched() != 1 {
		t.Errorf("%d fetches", p.fetched())
	}
}

func TestExpressions(t *testing.T) {
	p := newProvider(t)
	k := p.add("k1")
	s := p.must(`  claimMappings:
    username: {expression: "claims.given + '@' + claims.realm"}
    groups: {expression: "has(claims.roles) ? claims.roles.split(',') : []"}
    uid: {claim: sub}
    extra:
    - {key: example.com/tenant, valueExpression: "has(claims.tenant) ? claims.tenant : ''"}
    - {key: example.com/all, valueExpression: "[claims.given, claims.realm]"}
  claimValidationRules:
  - {claim: hd, requiredValue: example.com}
  - {expression: "claims.exp - claims.iat <= 7200", message: "too long a life"}
  userValidationRules:
  - {expression: "!user.username.startsWith('system:')", message: "reserved name"}
  - {expression: "user.groups.all(g, !g.startsWith('system:'))"}
`, Options{})
	now := time.Now().Unix()
	base := map[string]any{"given": "ann", "realm": "r", "hd": "example.com", "iat": now, "roles": "a,b", "tenant": "t"}
	with := func(more ...any) string {
		c := map[string]any{}
		for k, v := range base {
			c[k] = v
		}
		for i := 0; i+1 < len(more); i += 2 {
			c[more[i].(string)] = more[i+1]
		}
		return p.sign("k1", k, c)
	}
	u, _, ok, err := s.Token(t.Context(), with(), nil)
	want := &auth.User{Name: "ann@r", UID: "joe", Groups: []string{"a", "b"},
		Extra: map[string][]string{"example.com/tenant": {"t"}, "example.com/all": {"ann", "r"}}}
	if !ok || !reflect.DeepEqual(u, want) {
		t.Errorf("%+v %v", u, err)
	}
	if u, _, _, err := s.Token(t.Context(), with("tenant", nil, "roles", nil), nil); err != nil || len(u.Groups) != 0 || len(u.Extra) != 1 {
		t.Errorf("%+v %v", u, err)
	}
	for name, c := range map[string]struct{ token, want string }{
		"other domain":   {with("hd", "else"), "value does not match"},
		"no domain":      {with("hd", nil), "not present"},
		"long life":      {with("iat", now-7200), "too long a life"},
		"reserved":       {with("given", "system:x"), "reserved name"},
		"reserved group": {with("roles", "a,system:masters"), "is not true"},
		"no given name":  {with("given", nil), "evaluat"},
		"number":         {with("given", 7), "evaluat"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, ok, err := s.Token(t.Context(), c.token, nil); ok || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestEmail(t *testing.T) {
	p := newProvider(t)
	k := p.add("k1")
	s := p.must("  claimMappings: {username: {claim: email, prefix: ''}}\n", Options{})
	for _, c := range []struct {
		name     string
		verified any
		ok       bool
	}{
		{"not said", nil, true},
		{"verified", true, true},
		{"not verified", false, false},
		{"said in words", "true", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, _, ok, err := s.Token(t.Context(), p.sign("k1", k, map[string]any{"email": "a@b", "email_verified": c.verified}), nil)
			if ok != c.ok || ok && u.Name != "a@b" {
				t.Errorf("%v: %+v %v", c.verified, u, err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	head := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	issuer := func(fields, rest string) string {
		return head + "jwt:\n- issuer: {" + fields + "}\n" + rest
	}
	const good = "url: 'https://x', audiences: [a]"
	name := "  claimMappings: {username: {claim: sub, prefix: ''}}\n"
	for _, c := range []struct{ text, want string }{
		{"kind: Pod", "write kind AuthenticationConfiguration"},
		{head + "jwts: []", "unknown field"},
		{head + "anonymous: {enabled: false, conditions: [{path: /x}]}", "anonymous.conditions"},
		{issuer("audiences: [a]", name), "issuer.url: is needed"},
		{issuer("url: 'http://x', audiences: [a]", name), "https://"},
		{issuer("url: 'https://u@x', audiences: [a]", name), "no user"},
		{issuer("url: 'https://x'", name), "issuer.audiences"},
		{issuer("url: 'https://x', audiences: [a, b]", name), "MatchAny"},
		{issuer("url: 'https://x', discoveryURL: 'https://x/', audiences: [a]", name), "must differ"},
		{issuer("url: 'https://x', egressSelectorType: cluster, audiences: [a]", name), "egress"},
		{issuer("url: 'https://x', certificateAuthority: none, audiences: [a]", name), "certificateAuthority"},
		{issuer("url: 'https://taken', audiences: [a]", name), "service account"},
		{issuer(good, name) + "- issuer: {" + good + "}\n" + name, "named twice"},
		{issuer(good, ""), "claim or expression is needed"},
		{issuer(good, "  claimMappings: {username: {claim: sub}}"), "prefix: is needed"},
		{issuer(good, "  claimMappings: {username: {claim: sub, prefix: '', expression: 'claims.sub'}}"), "not both"},
		{issuer(good, "  claimMappings: {username: {expression: 'claims.'}}"), "username.expression"},
		{issuer(good, "  claimMappings: {username: {expression: 'claims.email'}}"), "email_verified"},
		{issuer(good, name+"  claimValidationRules: [{}]"), "give claim or expression"},
		{issuer(good, name+"  claimValidationRules: [{claim: a}, {claim: a}]"), "there twice"},
		{issuer(good, name+"  claimValidationRules: [{expression: \"'a'\"}]"), "claimValidationRules"},
		{issuer(good, name+"  userValidationRules: [{expression: 'claims.a'}]"), "userValidationRules[0]"},
		{issuer(good, "  claimMappings: {username: {claim: sub, prefix: ''}, extra: [{key: X, valueExpression: claims.a}]}"), "extra[0].key"},
		{issuer(good, "  claimMappings: {username: {claim: sub, prefix: ''}, extra: [{key: a.k8s.io/x, valueExpression: claims.a}]}"),
			"reserved"},
	} {
		t.Run(c.text, func(t *testing.T) {
			if _, err := Parse([]byte(c.text), Options{Taken: []string{"https://taken"}}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.text, err)
			}
		})
	}
	if _, err := Parse([]byte(head), Options{Algorithms: []string{"HS256"}}); err == nil {
		t.Error("a shared secret was accepted")
	}
	c, err := Parse([]byte(head+"anonymous: {enabled: true, conditions: [{path: /livez}]}"), Options{})
	if err != nil || c.Issuers != nil || c.Anonymous == nil || c.Anonymous.Conditions[0].Path != "/livez" {
		t.Errorf("%+v %v", c, err)
	}
}

func TestOddKeys(t *testing.T) {
	for _, k := range []webKey{{}, {Type: "RSA"}, {Type: "RSA", N: "AQAB", E: "AA"}, {Type: "EC"},
		{Type: "EC", Curve: "P-256", X: "AQ", Y: "AQ"},
		{Type: "EC", Curve: "P-256", X: strings.Repeat("_", 100)}, {Type: "RSA", Use: "enc", N: "AQAB", E: "AQAB"}, {Type: "RSA",
			N: "!", E: "!"}} {
		if _, err := k.public(); err == nil {
			t.Errorf("%s was taken", fmt.Sprint(k))
		}
	}
}
