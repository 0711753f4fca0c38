package csrsigning

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"
)

// asked is a signer that only notes what it is asked.
type asked struct {
	usage x509.KeyUsage
	ext   []x509.ExtKeyUsage
	life  time.Duration
}

func (a *asked) SignRequest(_ *x509.CertificateRequest, usage x509.KeyUsage, ext []x509.ExtKeyUsage, life time.Duration, _ time.Time) ([]byte, error) {
	*a = asked{usage, ext, life}
	return []byte("cert"), nil
}

func TestSign(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := func(cn, org string, hosts ...string) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			Subject: pkix.Name{CommonName: cn, Organization: []string{org}}, DNSNames: hosts}, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	node := request("system:node:n", "system:nodes")
	client, server, sig := certv1.UsageClientAuth, certv1.UsageServerAuth, certv1.UsageDigitalSignature
	for _, tt := range []struct {
		name, signer string
		req          []byte
		usages       []certv1.KeyUsage
		ok           bool
	}{
		{"a client", certv1.KubeAPIServerClientSignerName, request("u", "g"), []certv1.KeyUsage{client, sig}, true},
		{"a client that wants to serve", certv1.KubeAPIServerClientSignerName, request("u", "g"), []certv1.KeyUsage{client, server}, false},
		{"a kubelet", certv1.KubeAPIServerClientKubeletSignerName, node, []certv1.KeyUsage{client, sig}, true},
		{"somebody who says to be one", certv1.KubeAPIServerClientKubeletSignerName, request("u", "system:nodes"), []certv1.KeyUsage{client}, false},
		{"a kubelet with names", certv1.KubeAPIServerClientKubeletSignerName, request("system:node:n", "system:nodes", "n"), []certv1.KeyUsage{client}, false},
		{"a kubelet that serves", certv1.KubeletServingSignerName, request("system:node:n", "system:nodes", "n"), []certv1.KeyUsage{server, sig}, true},
		{"a kubelet that serves without a name", certv1.KubeletServingSignerName, node, []certv1.KeyUsage{server, sig}, false},
		{"not a request", certv1.KubeAPIServerClientSignerName, []byte("x"), []certv1.KeyUsage{client}, false},
	} {
		hour := int32(3600)
		r := &certv1.CertificateSigningRequest{Spec: certv1.CertificateSigningRequestSpec{SignerName: tt.signer, Request: tt.req, Usages: tt.usages, ExpirationSeconds: &hour}}
		var ca asked
		cert, refusal, err := sign(&ca, r, time.Unix(1, 0))
		if err != nil || (len(cert) > 0) != tt.ok || (refusal == nil) != tt.ok {
			t.Errorf("%s: %q, %v, %v", tt.name, cert, refusal, err)
		}
		if tt.ok && (ca.life != time.Hour || len(ca.ext) != 1) {
			t.Errorf("%s: the authority was asked for %+v", tt.name, ca)
		}
	}
}
