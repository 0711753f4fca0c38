package token

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/auth/authtest"
	"github.com/kloop-dev/kloop/kinds/core"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func meta(ns, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("uid-of-" + name)}
}

// world is a signer with a clock and a small cluster.
type world struct {
	*Signer
	now  time.Time
	sa   *corev1.ServiceAccount
	pod  *corev1.Pod
	read *authtest.Cluster
}

func newWorld(t testing.TB) *world {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{now: start, sa: &corev1.ServiceAccount{ObjectMeta: meta("ns", "default")},
		pod: &corev1.Pod{ObjectMeta: meta("ns", "p"), Spec: corev1.PodSpec{ServiceAccountName: "default", NodeName: "n"}}}
	w.Signer, err = New(Config{Key: key, Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	w.read = authtest.Of(core.ServiceAccounts, w.sa)
	authtest.Put(w.read, core.Pods, w.pod)
	authtest.Put(w.read, core.Nodes, &corev1.Node{ObjectMeta: meta("", "n")})
	return w
}

func (w *world) ask(spec authenticationv1.TokenRequestSpec) (*authenticationv1.TokenRequest, error) {
	return w.Request(w.read, w.sa, &authenticationv1.TokenRequest{Spec: spec})
}

func bound(kind, name, uid string) *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name, UID: types.UID(uid)}
}

func part(t *testing.T, text string, i int) (m map[string]any) {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[i])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRequestClaims(t *testing.T) {
	w := newWorld(t)
	tr, err := w.ask(authenticationv1.TokenRequestSpec{BoundObjectRef: bound("Pod", "p", "")})
	if err != nil {
		t.Fatal(err)
	}
	if h := part(t, tr.Status.Token, 0); len(h) != 2 || h["alg"] != "ES256" || h["kid"] != w.Signer.now.Load().kid {
		t.Errorf("header %v", h)
	}
	c := part(t, tr.Status.Token, 1)
	delete(c, "jti")
	got, _ := json.Marshal(c)
	want := fmt.Sprintf(`{"aud":["%s"],"exp":%d,"iat":%d,"iss":"%s","kubernetes.io":{"namespace":"ns",`+
		`"node":{"name":"n","uid":"uid-of-n"},"pod":{"name":"p","uid":"uid-of-p"},`+
		`"serviceaccount":{"name":"default","uid":"uid-of-default"}},"nbf":%d,"sub":"system:serviceaccount:ns:default"}`,
		Issuer, start.Unix()+3600, start.Unix(), Issuer, start.Unix())
	if string(got) != want {
		t.Errorf("claims\n%s\nwant\n%s", got, want)
	}
	if !tr.Status.ExpirationTimestamp.Time.Equal(start.Add(time.Hour)) {
		t.Errorf("expires %v", tr.Status.ExpirationTimestamp)
	}
}

func TestRequestExtended(t *testing.T) {
	w := newWorld(t)
	life := int64(3607)
	ref := bound("Pod", "p", "")
	tr, err := w.ask(authenticationv1.TokenRequestSpec{ExpirationSeconds: &life, BoundObjectRef: ref})
	if err != nil {
		t.Fatal(err)
	}
	c := part(t, tr.Status.Token, 1)
	if int64(c["exp"].(float64)) != start.Unix()+365*24*3600 {
		t.Errorf("exp %v", c["exp"])
	}
	if int64(c["kubernetes.io"].(map[string]any)["warnafter"].(float64)) != start.Unix()+3607 {
		t.Errorf("warnafter %v", c["kubernetes.io"])
	}
	if !tr.Status.ExpirationTimestamp.Time.Equal(start.Add(3607 * time.Second)) {
		t.Errorf("expires %v", tr.Status.ExpirationTimestamp)
	}
	for what, spec := range map[string]authenticationv1.TokenRequestSpec{
		"for others":      {ExpirationSeconds: &life, BoundObjectRef: ref, Audiences: []string{"vault"}},
		"not of some pod": {ExpirationSeconds: &life},
	} {
		t.Run(what, func(t *testing.T) {
			tr, _ = w.ask(spec)
			if c := part(t, tr.Status.Token, 1); int64(c["exp"].(float64)) != start.Unix()+3607 {
				t.Errorf("a token %s was extended: %v", what, c["exp"])
			}
		})
	}
}

func TestRequestRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		life   int64
		ref    *authenticationv1.BoundObjectReference
		reason metav1.StatusReason
		text   string
	}{
		{"short", 10, nil, metav1.StatusReasonInvalid, "less than 10 minutes"},
		{"huge", 5000000000, nil, metav1.StatusReasonInvalid, "2^32 seconds"},
		{"wrong kind", 600, bound("ConfigMap", "none", ""), metav1.StatusReasonBadRequest, "cannot bind token"},
		{"other group", 600, &authenticationv1.BoundObjectReference{APIVersion: "apps/v1", Kind: "Pod", Name: "p"},
			metav1.StatusReasonBadRequest, "cannot bind token"},
		{"no version", 600, &authenticationv1.BoundObjectReference{Kind: "Pod", Name: "none"}, metav1.StatusReasonNotFound,
			`pods "none" not found`},
		{"no name", 600, bound("Secret", "", ""), metav1.StatusReasonBadRequest, "Name parameter required"},
		{"missing", 600, bound("Pod", "none", ""), metav1.StatusReasonNotFound, `pods "none" not found`},
		{"wrong uid", 600, bound("Pod", "p", "x"), metav1.StatusReasonConflict, "does not match the UID"},
		{"other account", 600, bound("Pod", "q", ""), metav1.StatusReasonBadRequest, "different serviceaccount"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			authtest.Put(w.read, core.Pods, &corev1.Pod{ObjectMeta: meta("ns", "q"), Spec: corev1.PodSpec{ServiceAccountName: "o"}})
			_, err := w.ask(authenticationv1.TokenRequestSpec{ExpirationSeconds: &c.life, BoundObjectRef: c.ref})
			if apierrors.ReasonForError(err) != c.reason || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestVerify(t *testing.T) {
	late := metav1.NewTime(start.Add(-2 * time.Minute))
	just := metav1.NewTime(start.Add(-time.Second))
	for _, c := range []struct {
		name   string
		change func(w *world)
		auds   []string
		want   string // error; "" is success
	}{
		{"good", func(*world) {}, nil, ""},
		{"expired", func(w *world) { w.now = start.Add(2 * time.Hour) }, nil, "has expired"},
		{"early", func(w *world) { w.now = start.Add(-time.Second) }, nil, "not valid yet"},
		{"other audience", func(*world) {}, []string{"vault"}, "invalid for the target audiences"},
		{"account gone", func(w *world) { w.read.Remove(core.ServiceAccounts, "ns", "default") }, nil, "not found"},
		{"account new", func(w *world) {
			n := w.sa.DeepCopy()
			n.UID = "other"
			w.read.Add(core.ServiceAccounts, n)
		}, nil, "does not match claim"},
		{"pod gone", func(w *world) { w.read.Remove(core.Pods, "ns", "p") }, nil, "invalidated"},
		{"pod replaced", func(w *world) {
			n := w.pod.DeepCopy()
			n.UID = "other"
			w.read.Add(core.Pods, n)
		}, nil, "invalidated"},
		{"pod ending", func(w *world) {
			n := w.pod.DeepCopy()
			n.DeletionTimestamp = &just
			w.read.Add(core.Pods, n)
		}, nil, ""},
		{"pod ended", func(w *world) {
			n := w.pod.DeepCopy()
			n.DeletionTimestamp = &late
			w.read.Add(core.Pods, n)
		}, nil, "invalidated"},
		{"node gone", func(w *world) { w.read.Remove(core.Nodes, "", "n") }, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			tr, err := w.ask(authenticationv1.TokenRequestSpec{BoundObjectRef: bound("Pod", "p", "")})
			if err != nil {
				t.Fatal(err)
			}
			c.change(w)
			if c.auds == nil {
				c.auds = w.Audiences()
			}
			for range 2 { // the second time from memory
				u, granted, ours, err := w.Verify(tr.Status.Token, w.read, c.auds)
				if !ours {
					t.Fatal("not recognized")
				}
				if c.want == "" {
					if err != nil || u.Name != "system:serviceaccount:ns:default" || len(granted) != 1 ||
						u.Extra[ExtraPodName][0] != "p" || u.Extra[ExtraNodeUID][0] != "uid-of-n" {
						t.Errorf("%+v %v %v", u, granted, err)
					}
				} else if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
			}
		})
	}
}

// Audiences are granted as often as they are wanted.
func TestDoubledAudiences(t *testing.T) {
	w := newWorld(t)
	tr, err := w.ask(authenticationv1.TokenRequestSpec{BoundObjectRef: bound("Pod", "p", "")})
	if err != nil {
		t.Fatal(err)
	}
	own := w.Audiences()[0]
	_, granted, _, err := w.Verify(tr.Status.Token, w.read, []string{own, "other", own})
	if err != nil || !slices.Equal(granted, []string{own, own}) {
		t.Errorf("%q %v", granted, err)
	}
}

func TestForged(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	tr, _ := other.ask(authenticationv1.TokenRequestSpec{})
	if _, _, ours, err := w.Verify(tr.Status.Token, w.read, w.Audiences()); !ours || err == nil {
		t.Errorf("a foreign key was believed: %v %v", ours, err)
	}
	good, _ := w.ask(authenticationv1.TokenRequestSpec{})
	parts := strings.Split(good.Status.Token, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	if _, _, _, err := w.Verify(none+"."+parts[1]+".", w.read, w.Audiences()); err == nil {
		t.Error("an unsigned token was believed")
	}
	for _, text := range []string{"", "a", "a.b.c", "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln"} {
		if _, _, ours, _ := w.Verify(text, w.read, w.Audiences()); ours {
			t.Errorf("%q was recognized", text)
		}
	}
}

func TestSecretToken(t *testing.T) {
	w := newWorld(t)
	text, err := w.Secret(w.sa, "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ours, err := w.Verify(text, w.read, w.Audiences()); !ours || err == nil {
		t.Error("good without its secret")
	}
	authtest.Put(w.read, core.Secrets, &corev1.Secret{ObjectMeta: meta("ns", "s"), Data: map[string][]byte{"token": []byte(text)}})
	if u, _, _, err := w.Verify(text, w.read, w.Audiences()); err != nil || u.UID != "uid-of-default" {
		t.Errorf("%v %v", u, err)
	}
	if _, _, _, err := w.Verify(text, w.read, []string{"vault"}); err == nil {
		t.Error("good for others")
	}
}

func TestDocuments(t *testing.T) {
	w := newWorld(t)
	data, err := w.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []jsonWebKey }
	kid := w.Signer.now.Load().kid
	if json.Unmarshal(data, &set); len(set.Keys) != 1 || set.Keys[0].Kid != kid || len(set.Keys[0].X) != 43 || len(set.Keys[0].Y) != 43 {
		t.Errorf("keys %s", data)
	}
	data, _ = w.Discovery("https://192.0.2.1:6443")
	if !strings.Contains(string(data), `"jwks_uri":"https://192.0.2.1:6443/openid/v1/jwks"`) {
		t.Errorf("%s", data)
	}
}

func TestSeenIsBounded(t *testing.T) {
	var s seen
	for i := range maxSeen + 100 {
		s.put([32]byte{byte(i), byte(i >> 8), byte(i >> 16)}, &verified{})
	}
	if len(s.m) > maxSeen {
		t.Errorf("%d entries", len(s.m))
	}
}

func BenchmarkVerify(b *testing.B) {
	w := newWorld(b)
	tr, _ := w.ask(authenticationv1.TokenRequestSpec{BoundObjectRef: bound("Pod", "p", "")})
	for b.Loop() {
		if _, _, _, err := w.Verify(tr.Status.Token, w.read, w.Audiences()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		if _, err := w.ask(authenticationv1.TokenRequestSpec{}); err != nil {
			b.Fatal(err)
		}
	}
}
