package authn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authtest"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/auth/token"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// front is what a server would run: every way to authenticate.
func front(t *testing.T, read *authtest.Cluster) (*Front, *pki.PKI, *token.Signer) {
	t.Helper()
	keys, err := pki.Open(pki.Config{})
	if err != nil {
		t.Fatal(err)
	}
	key, _ := keys.ServiceAccount()
	signer, err := token.New(token.Config{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	reader := func() resource.Reader { return read }
	return &Front{Known: Union{
		&Proxy{Roots: keys.FrontProxy.Pool, Names: []string{pki.FrontProxyUser}},
		&Certs{Roots: keys.CA.Pool},
		Bearer{Audiences: signer.Audiences(), Tokens: TokenUnion{ServiceAccounts{signer, reader}, Bootstrap{Read: reader},
			NewStatic(map[string]*auth.User{"s3cret": {Name: "static"}})}},
	}}, keys, signer
}

func withCert(t *testing.T, r *http.Request, certPEM []byte) *http.Request {
	t.Helper()
	certs, err := pki.ParseCerts(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certs[0]}}
	return r
}

func get() *http.Request { return httptest.NewRequest("GET", "/api/v1/namespaces", nil) }

func TestCertificates(t *testing.T) {
	f, keys, _ := front(t, &authtest.Cluster{})
	cert, _, _ := keys.Issue("alice", []string{"devs"}, 0)
	for range 2 { // the second time from memory
		u, ok, err := f.Authenticate(withCert(t, get(), cert))
		if !ok || err != nil || u.Name != "alice" || !reflect.DeepEqual(u.Groups, []string{"devs", "system:authenticated"}) {
			t.Fatalf("%+v %v %v", u, ok, err)
		}
		if id := u.Extra[token.ExtraCredential]; len(id) != 1 || len(id[0]) != len("X509SHA256=")+64 {
			t.Errorf("credential id %v", id)
		}
	}
	other, _ := pki.Open(pki.Config{})
	cert, _, _ = other.Issue("alice", nil, 0)
	if _, ok, err := f.Authenticate(withCert(t, get(), cert)); ok || err == nil {
		t.Error("a foreign certificate was believed")
	}
	certs := &Certs{Roots: keys.CA.Pool, Now: func() time.Time { return time.Now().Add(400 * 24 * time.Hour) }}
	cert, _, _ = keys.Issue("alice", nil, 0)
	if _, ok, err := certs.Authenticate(withCert(t, get(), cert)); ok || err == nil {
		t.Error("an expired certificate was believed")
	}
}

func TestExpiryIsNotForgotten(t *testing.T) {
	keys, _ := pki.Open(pki.Config{})
	now := time.Now()
	c := &Certs{Roots: keys.CA.Pool, Now: func() time.Time { return now }}
	cert, _, _ := keys.Issue("alice", nil, time.Hour)
	if _, ok, _ := c.Authenticate(withCert(t, get(), cert)); !ok {
		t.Fatal("refused")
	}
	now = now.Add(2 * time.Hour)
	if _, ok, _ := c.Authenticate(withCert(t, get(), cert)); ok {
		t.Error("good after its end, from memory")
	}
}

func TestFrontProxy(t *testing.T) {
	f, keys, _ := front(t, &authtest.Cluster{})
	ask := func(cert []byte) (*auth.User, *http.Request) {
		r := withCert(t, get(), cert)
		r.Header.Set("X-Remote-User", "bob")
		r.Header.Add("X-Remote-Group", "g1")
		r.Header.Add("X-Remote-Group", "g2")
		r.Header.Set("X-Remote-Uid", "u")
		r.Header.Set("X-Remote-Extra-Example.com%2fscopes", "a")
		u, ok, err := f.Authenticate(r)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		return u, r
	}
	proxy, _, _ := keys.FrontProxyClient()
	u, r := ask(proxy)
	want := &auth.User{Name: "bob", UID: "u", Groups: []string{"g1", "g2", "system:authenticated"},
		Extra: map[string][]string{"example.com/scopes": {"a"}}}
	if !reflect.DeepEqual(u, want) {
		t.Errorf("%+v", u)
	}
	if len(r.Header) != 0 {
		t.Errorf("headers left: %v", r.Header)
	}
	cert, _, _ := keys.Issue("mallory", nil, 0)
	if u, r = ask(cert); u.Name != "mallory" || len(r.Header) != 0 {
		t.Errorf("%+v %v", u, r.Header)
	}
	cert, _, _ = keys.FrontProxy.Issue(pki.Leaf{User: "somebody", Client: true}, time.Now())
	r = withCert(t, get(), cert)
	r.Header.Set("X-Remote-User", "bob")
	if _, ok, err := f.Authenticate(r); ok || err == nil {
		t.Error("a front proxy of the wrong name was believed")
	}
}

func TestBearer(t *testing.T) {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa", UID: "1"}}
	read := authtest.Of(core.ServiceAccounts, sa)
	f, _, signer := front(t, read)
	good, err := signer.Sign(&token.Claims{Issuer: token.Issuer, Audience: signer.Audiences(), Expiry: time.Now().Unix() + 60,
		Bound: token.Bound{Namespace: "ns", ServiceAccount: token.Ref{Name: "sa", UID: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, header, want string }{
		{"service account", "Bearer " + good, "system:serviceaccount:ns:sa"},
		{"lower case", "bearer " + good, "system:serviceaccount:ns:sa"},
		{"static", "Bearer s3cret", "static"},
		{"garbage", "Bearer garbage", "401"},
		{"jwt-like", "Bearer eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln", "401"},
		{"spaces", "Bearer a b", "401"},
		{"long", "Bearer " + strings.Repeat("t", 5000), "401"},
		{"too long", "Bearer " + strings.Repeat("t", maxToken+1), "401"},
		{"other scheme", "Basic YTpi", auth.Anonymous},
		{"no token", "Bearer ", auth.Anonymous},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := get()
			r.Header.Set("Authorization", c.header)
			u, ok, err := f.Authenticate(r)
			if c.want == "401" {
				if ok || err == nil {
					t.Errorf("%+v", u)
				}
				return
			}
			if !ok || err != nil || u.Name != c.want {
				t.Errorf("%+v %v %v", u, ok, err)
			}
			if c.want != auth.Anonymous && r.Header.Get("Authorization") != "" {
				t.Error("the token is passed on")
			}
		})
	}
	r := get()
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set(protocolHeader, "v5.channel.k8s.io, "+protocolPrefix+base64.RawURLEncoding.EncodeToString([]byte(good)))
	if u, ok, err := f.Authenticate(r); !ok || err != nil || u.Name != "system:serviceaccount:ns:sa" ||
		r.Header.Get(protocolHeader) != "v5.channel.k8s.io" {
		t.Errorf("websocket: %+v %v %v", u, err, r.Header)
	}
}

func TestAnonymous(t *testing.T) {
	f, _, _ := front(t, &authtest.Cluster{})
	u, ok, err := f.Authenticate(get())
	if !ok || err != nil || u.Name != auth.Anonymous || !reflect.DeepEqual(u.Groups, []string{auth.GroupUnauthed}) {
		t.Errorf("%+v", u)
	}
	f.Anonymous = func(path string) bool { return path == "/healthz" }
	if _, ok, err := f.Authenticate(get()); ok || err != nil {
		t.Error("anonymous where it is not allowed")
	}
}

func TestBootstrapTokens(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		token  string
		change func(s *corev1.Secret)
		groups string // "": refused
	}{
		{"good", "abcdef.0123456789abcdef", func(*corev1.Secret) {}, "system:bootstrappers"},
		{"groups", "abcdef.0123456789abcdef", func(s *corev1.Secret) {
			s.Data["auth-extra-groups"] = []byte("system:bootstrappers:a,system:bootstrappers:b")
		}, "system:bootstrappers system:bootstrappers:a system:bootstrappers:b"},
		{"bad group", "abcdef.0123456789abcdef", func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:masters") }, ""},
		{"longest group", "abcdef.0123456789abcdef", func(s *corev1.Secret) {
			s.Data["auth-extra-groups"] = []byte("system:bootstrappers:" + strings.Repeat("a", 256))
		}, "system:bootstrappers system:bootstrappers:" + strings.Repeat("a", 256)},
		{"too long a group", "abcdef.0123456789abcdef", func(s *corev1.Secret) {
			s.Data["auth-extra-groups"] = []byte("system:bootstrappers:" + strings.Repeat("a", 257))
		}, ""},
		{"wrong secret", "abcdef.0123456789abcdee", func(*corev1.Secret) {}, ""},
		{"unknown", "aaaaaa.0123456789abcdef", func(*corev1.Secret) {}, ""},
		{"form", "abcdef.0123456789abcde", func(*corev1.Secret) {}, ""},
		{"not for this", "abcdef.0123456789abcdef", func(s *corev1.Secret) { delete(s.Data, "usage-bootstrap-authentication") }, ""},
		{"expired", "abcdef.0123456789abcdef", func(s *corev1.Secret) { s.Data["expiration"] = []byte("2025-12-31T00:00:00Z") }, ""},
		{"unclear end", "abcdef.0123456789abcdef", func(s *corev1.Secret) { s.Data["expiration"] = []byte("soon") }, ""},
		{"in time", "abcdef.0123456789abcdef", func(s *corev1.Secret) { s.Data["expiration"] = []byte("2026-12-31T00:00:00Z") },
			"system:bootstrappers"},
		{"wrong type", "abcdef.0123456789abcdef", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"},
				Type: corev1.SecretTypeBootstrapToken, Data: map[string][]byte{"token-id": []byte("abcdef"),
					"token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true")}}
			c.change(s)
			read := authtest.Of(core.Secrets, s)
			b := Bootstrap{Read: func() resource.Reader { return read }, Now: func() time.Time { return now }}
			u, _, ok, _ := b.Token(context.Background(), c.token, nil)
			if ok != (c.groups != "") || ok && (strings.Join(u.Groups, " ") != c.groups || u.Name != "system:bootstrap:abcdef") {
				t.Errorf("%+v %v", u, ok)
			}
		})
	}
}

// allowing allows what is in the set of "verb group/resource/subresource namespace/name".
type allowing map[string]bool

func (z allowing) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	if z[a.Verb+" "+a.Group+"/"+a.Resource+"/"+a.Subresource+" "+a.Namespace+"/"+a.Name] {
		return auth.Allow, "", nil
	}
	return auth.NoOpinion, "", nil
}

func TestImpersonate(t *testing.T) {
	z := allowing{"impersonate /users/ /eve": true, "impersonate /groups/ /g": true, "impersonate /serviceaccounts/ ns/sa": true,
		"impersonate authentication.k8s.io/userextras/scopes /a": true, "impersonate authentication.k8s.io/uids/ /u-1": true,
		"impersonate /users/ /system:anonymous": true}
	for _, c := range []struct {
		name   string
		header http.Header
		want   *auth.User
		reason metav1.StatusReason
		text   string
	}{
		{"none", http.Header{"Accept": {"x"}}, &auth.User{Name: "admin"}, "", ""},
		{"user", http.Header{asUser: {"eve"}}, &auth.User{Name: "eve", Groups: []string{"system:authenticated"}}, "", ""},
		{"all", http.Header{asUser: {"eve"}, asGroup: {"g"}, asUID: {"u-1"}, "Impersonate-Extra-Scopes": {"a"}},
			&auth.User{Name: "eve", UID: "u-1", Groups: []string{"g", "system:authenticated"}, Extra: map[string][]string{"scopes": {"a"}}}, "", ""},
		{"service account", http.Header{asUser: {"system:serviceaccount:ns:sa"}}, &auth.User{Name: "system:serviceaccount:ns:sa",
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"}}, "", ""},
		{"anonymous", http.Header{asUser: {auth.Anonymous}}, &auth.User{Name: auth.Anonymous, Groups: []string{auth.GroupUnauthed}}, "", ""},
		{"other user", http.Header{asUser: {"bob"}}, nil, metav1.StatusReasonForbidden,
			`pods "p" is forbidden: User "admin" cannot impersonate-on:user-info:get resource "pods" in API group "" in the namespace "ns"`},
		{"other group", http.Header{asUser: {"eve"}, asGroup: {"g", "system:masters"}}, nil, metav1.StatusReasonForbidden,
			"impersonate-on:user-info:get"},
		{"other extra", http.Header{asUser: {"eve"}, "Impersonate-Extra-Scopes": {"b"}}, nil, metav1.StatusReasonForbidden,
			"impersonate-on:user-info:get"},
		{"group alone", http.Header{asGroup: {"g"}}, nil, metav1.StatusReasonBadRequest, "without impersonating a user"},
		{"extra alone", http.Header{"Impersonate-Extra-X": {"g"}}, nil, metav1.StatusReasonBadRequest, "without impersonating a user"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &auth.Attributes{User: &auth.User{Name: "admin"}, Verb: "get", Version: "v1", Resource: "pods", Namespace: "ns", Name: "p"}
			u, constraint, err := Impersonate(context.Background(), a, c.header, z)
			if constraint != "" {
				t.Errorf("constrained by %s", constraint)
			}
			if c.reason != "" {
				if apierrors.ReasonForError(err) != c.reason || !strings.Contains(err.Error(), c.text) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(u, c.want) {
				t.Errorf("%+v %v", u, err)
			}
			if c.header.Get(asUser) != "" {
				t.Error("the headers stay")
			}
		})
	}
}

func BenchmarkCertificate(b *testing.B) {
	keys, _ := pki.Open(pki.Config{})
	text, _, _ := keys.Issue("alice", nil, 0)
	certs, _ := pki.ParseCerts(text)
	r := get()
	r.TLS = &tls.ConnectionState{PeerCertificates: certs}
	c := &Certs{Roots: keys.CA.Pool}
	for b.Loop() {
		if _, ok, _ := c.Authenticate(r); !ok {
			b.Fatal("refused")
		}
	}
}
