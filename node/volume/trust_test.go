package volume

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/node/csi"
	"github.com/kloop-dev/kloop/resource"
)

// block is a PEM block of a made-up certificate.
func block(text string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
}

func bundle(name, signer, label string, anchors ...string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": label}},
		Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: strings.Join(anchors, "")}}
}

func TestTrustBundles(t *testing.T) {
	c := cluster()
	c.seen["clustertrustbundles//plain"] = bundle("plain", "", "", "some words\n", block("b"), block("a"), block("b"))
	of := []*certificatesv1.ClusterTrustBundle{bundle("e.f:s:1", "e.f/s", "x", block("c"), block("a")),
		bundle("e.f:s:2", "e.f/s", "y", block("b"), block("c"))}
	complete := true
	m := New(Config{Dir: t.TempDir(), Client: c, Node: "n1", Bundles: func(signer string) ([]*certificatesv1.ClusterTrustBundle, bool) {
		if signer != "e.f/s" {
			return nil, complete
		}
		return of, complete
	}})
	for _, row := range []struct{ src, want, err string }{
		{"name: plain, path: p", "ab", ""},
		{"name: none, path: p", "", `while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "none" not found`},
		{"name: none, path: p, optional: true", "", ""},
		{"signerName: e.f/s, labelSelector: {}, path: p", "abc", ""},
		{"signerName: e.f/s, labelSelector: {matchLabels: {l: x}}, path: p", "ac", ""},
		{"signerName: e.f/s, labelSelector: {matchLabels: {l: z}}, path: p", "", "matched zero ClusterTrustBundles"},
		{"signerName: e.f/s, path: p", "", "matched zero ClusterTrustBundles"}, // no selector selects nothing
		{"signerName: e.f/s, path: p, optional: true", "", ""},
		{"signerName: e.f/other, labelSelector: {}, path: p", "", "matched zero ClusterTrustBundles"},
	} {
		t.Run(row.src, func(t *testing.T) {
			p := pod(t, "volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {"+row.src+"}}]}}]")
			f := &filling{m: m, pod: p, files: map[string]file{}}
			err := f.fill(t.Context(), &p.Spec.Volumes[0])
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) {
					t.Errorf("%s: %v, want %s", row.src, err, row.err)
				}
				return
			}
			var want string
			for _, r := range row.want {
				want += block(string(r))
			}
			if got, there := f.files["p"]; err != nil || !there || string(got.data) != want || got.mode != 0o644 {
				t.Errorf("%s: %v %v %q, want %q", row.src, err, got.mode, got.data, want)
			}
		})
	}
	complete = false
	p := pod(t, "volumes: [{name: v, projected: {sources: ["+
		"{clusterTrustBundle: {signerName: e.f/s, labelSelector: {}, path: p, optional: true}}]}}]")
	if _, err := m.bundles(t.Context(), p.Spec.Volumes[0].Projected.Sources[0].ClusterTrustBundle); !csi.IsWaiting(err) {
		t.Errorf("what is not read yet is %v, want to wait", err)
	}
}

func TestTrusts(t *testing.T) {
	p := pod(t, "volumes: [{name: e, emptyDir: {}}, {name: v, projected: {sources: ["+
		"{clusterTrustBundle: {name: one, path: p}}, {clusterTrustBundle: {signerName: e.f/s, path: q}}]}}]")
	for b, want := range map[*certificatesv1.ClusterTrustBundle]bool{bundle("one", "", ""): true, bundle("m", "", ""): false,
		bundle("e.f:s:1", "e.f/s", ""): true, bundle("e.f:t:1", "e.f/t", ""): false} {
		if got := Trusts(p, b); got != want {
			t.Errorf("%s: %v", b.Name, got)
		}
	}
}

// Create takes requests for certificates.
func (f *fake) Create(_ context.Context, k resource.Kind, obj resource.Object) (resource.Object, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	r := obj.(*certificatesv1.PodCertificateRequest).DeepCopy()
	f.asks = append(f.asks, r)
	r.Name = fmt.Sprintf("%s%d", r.GenerateName, len(f.asks))
	f.server[key(k, r.Namespace, r.Name)] = r
	return r, nil
}

// sign issues a request's certificate for two hours, to be renewed after one.
func sign(t *testing.T, r *certificatesv1.PodCertificateRequest) {
	t.Helper()
	req, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil || req.CheckSignature() != nil || len(req.Subject.Names) > 0 {
		t.Fatal("the request is no proof", err)
	}
	_, ca, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: r.Spec.PodName},
		NotBefore: now, NotAfter: now.Add(2 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, req.PublicKey, ca)
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) *metav1.Time { m := metav1.NewTime(now.Add(d)); return &m }
	r.Status = certificatesv1.PodCertificateRequestStatus{NotBefore: at(0), BeginRefreshAt: at(time.Hour), NotAfter: at(2 * time.Hour),
		CertificateChain: "words\n" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		Conditions:       []metav1.Condition{{Type: "Issued", Status: "True"}}}
}

// certified is a pod with a certificate, its cluster, and what shows the volume once.
func certified(t *testing.T, source string) (c *fake, look func() (map[string]file, time.Duration, error)) {
	t.Helper()
	c = cluster()
	c.server["serviceaccounts/ns/sa"] = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa", Namespace: "ns", UID: "sa-uid"}}
	p := pod(t, "serviceAccountName: sa\nvolumes: [{name: v, projected: {sources: [{podCertificate: {"+source+"}}]}}]")
	m := New(Config{Dir: t.TempDir(), Client: c, Node: "n1"})
	return c, func() (map[string]file, time.Duration, error) {
		f := &filling{m: m, pod: p, path: m.cfg.Dir, files: map[string]file{}}
		err := f.fill(t.Context(), &p.Spec.Volumes[0])
		return f.files, f.next, err
	}
}

const both = "signerName: e.f/s, keyType: ED25519, maxExpirationSeconds: 7200, credentialBundlePath: both, " +
	"keyPath: k, certificateChainPath: c, userAnnotations: {e.f/a: b}"

// A certificate is asked for, waited for, shown, and renewed with another key, which is shown together with its chain.
func TestPodCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, look := certified(t, both)
		for range 3 {
			if _, _, err := look(); !csi.IsWaiting(err) || len(c.asks) != 1 {
				t.Fatalf("%v after %d requests; want to wait for one", err, len(c.asks))
			}
		}
		r := c.asks[0]
		if s := r.Spec; s.SignerName != "e.f/s" || s.PodName != "web" || s.PodUID != "u1" || s.ServiceAccountUID != "sa-uid" ||
			s.NodeName != "n1" ||
			*s.MaxExpirationSeconds != 7200 || s.UnverifiedUserAnnotations["e.f/a"] != "b" || r.OwnerReferences[0].UID != "u1" {
			t.Errorf("%+v", r)
		}
		sign(t, r)
		first, next, err := look()
		if err != nil || string(first["both"].data) != string(first["k"].data)+string(first["c"].data) ||
			!strings.HasPrefix(string(first["k"].data), "-----BEGIN PRIVATE KEY-----") ||
			!strings.HasPrefix(string(first["c"].data), "-----BEGIN CERT") {
			t.Fatalf("%v %v", err, first)
		}
		if next < time.Hour || next > time.Hour+renewJitter {
			t.Errorf("looked at again after %v", next)
		}
		time.Sleep(next + time.Second)
		if got, next, err := look(); err != nil || len(c.asks) != 2 || string(got["k"].data) != string(first["k"].data) ||
			next != askAgain {
			t.Fatalf("while it is renewed: %v, %d requests, next %v", err, len(c.asks), next)
		}
		sign(t, c.asks[1])
		if got, _, err := look(); err != nil || string(got["k"].data) == string(first["k"].data) ||
			string(got["c"].data) == string(first["c"].data) {
			t.Errorf("renewed: %v", err)
		}
	})
}

// A request that is lost is made again after a pause, one that can't be made is told, and a certificate that can't be renewed is shown on.
func TestPodCertificateLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, look := certified(t, both)
		c.refuse = errors.New("no")
		if _, _, err := look(); err == nil || csi.IsWaiting(err) {
			t.Errorf("%v, want that it can't be asked for", err)
		}
		c.refuse = nil
		_, _, _ = look()
		delete(c.server, "podcertificaterequests/ns/req-1")
		if _, _, err := look(); !csi.IsWaiting(err) || len(c.asks) != 1 {
			t.Fatalf("%v after %d requests; want a pause", err, len(c.asks))
		}
		time.Sleep(askAgain + time.Second)
		_, _, _ = look()
		if len(c.asks) != 2 {
			t.Fatalf("%d requests, want another one", len(c.asks))
		}
		sign(t, c.asks[1])
		_, next, _ := look()
		time.Sleep(next + time.Second)
		c.refuse = errors.New("no")
		for range 3 {
			if got, next, err := look(); err != nil || len(got) != 3 || next != askAgain {
				t.Errorf("a certificate that can't be renewed: %v, next %v", err, next)
			}
		}
	})
}

// A refusal holds for the pod's life.
func TestPodCertificateRefused(t *testing.T) {
	for typ, want := range map[string]string{"Denied": "permanently denied", "Failed": "permanently failed"} {
		t.Run(typ, func(t *testing.T) {
			c, look := certified(t, both)
			_, _, _ = look()
			c.asks[0].Status.Conditions = []metav1.Condition{{Type: typ, Status: "True", Reason: "UnsupportedKeyType", Message: "use another"}}
			for range 2 {
				if _, _, err := look(); err == nil ||
					!strings.Contains(err.Error(), want+`: reason="UnsupportedKeyType" message="use another"`) {
					t.Errorf("%s: %v", typ, err)
				}
			}
			if len(c.asks) != 1 {
				t.Errorf("%s: asked %d times", typ, len(c.asks))
			}
		})
	}
}

// An agent that starts anew goes on with what it finds, if the key is there and the chain is its.
func TestPodCertificateKept(t *testing.T) {
	c, look := certified(t, both)
	_, _, _ = look()
	sign(t, c.asks[0])
	files, _, err := look()
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := newKey("ED25519")
	if err != nil {
		t.Fatal(err)
	}
	keyed := string(files["k"].data)
	for _, row := range []struct {
		source, key string
		asks        int
	}{{"credentialBundlePath: both", keyed, 0}, {"keyPath: k, certificateChainPath: c", keyed, 0}, {"keyPath: k", keyed, 1},
		{"keyPath: k, certificateChainPath: c", string(other), 1}, {"keyPath: k, certificateChainPath: c", "", 1}} {
		t.Run(row.source, func(t *testing.T) {
			c, _ := certified(t, both)
			p := pod(t, "serviceAccountName: sa\nvolumes: [{name: v, projected: {sources: ["+
				"{podCertificate: {signerName: e.f/s, keyType: ED25519, "+row.source+"}}]}}]")
			f := &filling{m: New(Config{Dir: t.TempDir(), Client: c, Node: "n1"}), pod: p, path: t.TempDir(), files: map[string]file{}}
			write := func(name, text string) {
				if err := os.MkdirAll(filepath.Join(f.path, dataLink), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(f.path, dataLink, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("k", row.key)
			write("c", string(files["c"].data))
			write("both", row.key+string(files["c"].data))
			err := f.fill(t.Context(), &p.Spec.Volumes[0])
			if len(c.asks) != row.asks || (err == nil) != (row.asks == 0) {
				t.Errorf("%s: %d requests, %v", row.source, len(c.asks), err)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	for kind, fits := range map[string]func(any) bool{
		"RSA3072":   func(k any) bool { r, ok := k.(*rsa.PublicKey); return ok && r.Size() == 384 },
		"RSA4096":   func(k any) bool { r, ok := k.(*rsa.PublicKey); return ok && r.Size() == 512 },
		"ECDSAP256": func(k any) bool { e, ok := k.(*ecdsa.PublicKey); return ok && e.Curve == elliptic.P256() },
		"ECDSAP384": func(k any) bool { e, ok := k.(*ecdsa.PublicKey); return ok && e.Curve == elliptic.P384() },
		"ECDSAP521": func(k any) bool { e, ok := k.(*ecdsa.PublicKey); return ok && e.Curve == elliptic.P521() },
		"ED25519":   func(k any) bool { _, ok := k.(ed25519.PublicKey); return ok },
	} {
		t.Run(kind, func(t *testing.T) {
			key, proof, err := newKey(kind)
			if err != nil {
				t.Fatal(kind, err)
			}
			req, err := x509.ParseCertificateRequest(proof)
			if b, _ := pem.Decode(key); err != nil || req.CheckSignature() != nil || !fits(req.PublicKey) || b == nil || b.Type != "PRIVATE KEY" {
				t.Errorf("%s: %v", kind, err)
			}
		})
	}
	if _, _, err := newKey("DSA"); err == nil {
		t.Error("a key of an unknown type")
	}
}
