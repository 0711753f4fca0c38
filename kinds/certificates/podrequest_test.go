package certificates

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// request returns a request for a key, signed by it.
func request(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// says holds errors to their texts, in order.
func says(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	if len(errs) != len(want) {
		t.Fatalf("%d errors, want %d: %v", len(errs), len(want), errs)
	}
	for i, e := range errs {
		if !strings.Contains(e.Error(), want[i]) {
			t.Errorf("%v\nlacks %q", e, want[i])
		}
	}
}

// What a node asks for is refused in upstream's words, by which its specs know the rule.
func TestPodRequestSays(t *testing.T) {
	_, good, err := ed25519.GenerateKey(rand.Reader)
	weak, wrong := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	short, shorter := rsa.GenerateKey(rand.Reader, 2048)
	if err = errors.Join(err, wrong, shorter); err != nil {
		t.Fatal(err)
	}
	forged := request(t, good)
	forged[len(forged)-1] ^= 1
	for _, tt := range []struct {
		name string
		set  func(*certificatesv1.PodCertificateRequestSpec)
		want []string
	}{
		{"fine", func(*certificatesv1.PodCertificateRequestSpec) {}, nil},
		{"too short a life", func(s *certificatesv1.PodCertificateRequestSpec) { *s.MaxExpirationSeconds = 3599 },
			[]string{"spec.maxExpirationSeconds: Invalid value: 3599: must be in the range [3600, 7862400]"}},
		{"too long a life of Kubernetes' own signer", func(s *certificatesv1.PodCertificateRequestSpec) {
			s.SignerName, *s.MaxExpirationSeconds = "sub.kubernetes.io/x", 86401
		}, []string{"must be in the range [3600, 86400]"}},
		{"annotations without a domain", func(s *certificatesv1.PodCertificateRequestSpec) {
			s.UnverifiedUserAnnotations = map[string]string{"A": "b"}
		}, []string{`spec.unverifiedUserAnnotations: Invalid value: "a": must be a domain-prefixed key (such as "acme.io/foo")`}},
		{"no request", func(s *certificatesv1.PodCertificateRequestSpec) { s.StubPKCS10Request = []byte("x") },
			[]string{"spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"}},
		{"another's signature", func(s *certificatesv1.PodCertificateRequestSpec) { s.StubPKCS10Request = forged },
			[]string{"spec.stubPKCS10Request: Invalid value: invalid signature"}},
		{"a curve that nobody asks for", func(s *certificatesv1.PodCertificateRequestSpec) { s.StubPKCS10Request = request(t, weak) },
			[]string{`Invalid value: "curve P-224": elliptic public keys must use curve P256, P384, or P521`}},
		{"a short key", func(s *certificatesv1.PodCertificateRequestSpec) { s.StubPKCS10Request = request(t, short) },
			[]string{`Invalid value: "2048-bit modulus": RSA keys must have modulus size 3072 or 4096`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := requested(request(t, good))
			tt.set(&r.Spec)
			says(t, validatePodRequest(r, nil), tt.want...)
		})
	}
}

func requested(stub []byte) pcr {
	day := int32(86400)
	return &certificatesv1.PodCertificateRequest{Spec: certificatesv1.PodCertificateRequestSpec{SignerName: "a.example/b", PodName: "p",
		PodUID: "u", ServiceAccountName: "s", ServiceAccountUID: "u", NodeName: "n", NodeUID: "u", MaxExpirationSeconds: &day,
		StubPKCS10Request: stub}}
}

// What a signer issues is held to the request, to the status beside it, and to what readers of certificates take.
func TestIssuedToPod(t *testing.T) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	type issue struct {
		leaf   x509.Certificate
		to     ed25519.PublicKey
		append string // to the chain
	}
	for _, tt := range []struct {
		name string
		set  func(*issue)
		then func(*certificatesv1.PodCertificateRequestStatus)
		want []string
	}{
		{name: "fine"},
		{"to another key", func(i *issue) { i.to = other }, nil, []string{"leaf certificate was not issued to the requested public key"}},
		{"for too long", func(i *issue) { i.leaf.NotAfter = now.Add(25 * time.Hour) }, nil,
			[]string{"leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)"}},
		{"for too short", func(i *issue) { i.leaf.NotAfter = now.Add(time.Minute) }, nil,
			[]string{"leaf certificate lifetime must be >= 1 hour"}},
		{"an hour ago", func(i *issue) { i.leaf.NotBefore = now.Add(-time.Hour) }, nil,
			[]string{"must be set to within 5 minutes of kube-apiserver's current time"}},
		{"a name with two dots", func(i *issue) { i.leaf.DNSNames = []string{"a..b"} }, nil,
			[]string{`Invalid value: "a..b": leaf certificate's DNSName should not contain '..'`}},
		{"a key behind it", func(i *issue) { i.append = "-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n" }, nil,
			[]string{"issued certificate chain must consist entirely of CERT"}},
		{"no certificate behind it", func(i *issue) { i.append = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" }, nil,
			[]string{"intermediate certificate does not parse as valid X.509"}},
		{"without times", func(*issue) {}, func(s *certificatesv1.PodCertificateRequestStatus) { s.NotBefore, s.BeginRefreshAt = nil, nil },
			[]string{"status.notBefore: Required", "status.beginRefreshAt: Required"}},
		{"renewed too late", func(*issue) {}, func(s *certificatesv1.PodCertificateRequestStatus) {
			s.BeginRefreshAt = &metav1.Time{Time: s.NotAfter.Add(-time.Minute)}
		}, []string{"must be at least 10 minutes before status.notAfter"}},
		{"nothing", func(*issue) {}, func(s *certificatesv1.PodCertificateRequestStatus) { s.CertificateChain = "" },
			[]string{"issued certificate chain must contain at least one certificate"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := issue{leaf: x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.Add(2 * time.Hour)}, to: public}
			if tt.set != nil {
				tt.set(&i)
			}
			der, err := x509.CreateCertificate(rand.Reader, &i.leaf, &i.leaf, i.to, key)
			if err != nil {
				t.Fatal(err)
			}
			old := requested(request(t, key))
			r := old.DeepCopy()
			r.Status = certificatesv1.PodCertificateRequestStatus{
				CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) + i.append,
				NotBefore:        &metav1.Time{Time: i.leaf.NotBefore}, NotAfter: &metav1.Time{Time: i.leaf.NotAfter},
				BeginRefreshAt: &metav1.Time{Time: i.leaf.NotBefore.Add(30 * time.Minute)},
				Conditions: []metav1.Condition{{Type: certificatesv1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue,
					Reason: "Issued", LastTransitionTime: metav1.Time{Time: now}}}}
			if tt.then != nil {
				tt.then(&r.Status)
			}
			says(t, validatePodRequestStatus(r, old), tt.want...)
		})
	}
}

// Each entry of a bundle that is no authority's certificate is named; only then are doubles.
func TestBundleSays(t *testing.T) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	entry := func(kind string, authority bool) string {
		c := x509.Certificate{SerialNumber: big.NewInt(1), IsCA: authority, BasicConstraintsValid: true}
		der, err := x509.CreateCertificate(rand.Reader, &c, &c, public, key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	ca := entry(certificateBlock, true)
	for _, tt := range []struct {
		name, bundle string
		want         []string
	}{
		{"fine", "a comment\n" + ca, nil},
		{"nothing", "a comment\n", []string{`spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided`}},
		{"twice", ca + ca + ca, []string{"duplicate trust anchor (indices [0 1 2])"}},
		{"others", ca + ca + entry("KEY", true) + entry(certificateBlock, false),
			[]string{"entry 2 has bad block type: KEY", "entry 3 does not have the CA bit set"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &certificatesv1.ClusterTrustBundle{Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: tt.bundle}}
			says(t, validateBundle(b, nil), tt.want...)
		})
	}
}
