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

	certificatesv1 "k8s.io/api/certificates/v1"
)

// asked is a signer that only notes what it is asked.
type asked struct {
	usage x509.KeyUsage
	ext   []x509.ExtKeyUsage
	life  time.Duration
}

func (a *asked) SignRequest(_ *x509.CertificateRequest, usage x509.KeyUsage, ext []x509.ExtKeyUsage, life time.Duration,
	_ time.Time) ([]byte, error) {
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
	client, server, sig := certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature
	for _, tt := range []struct {
		name, signer string
		req          []byte
		usages       []certificatesv1.KeyUsage
		ok           bool
	}{
		{"a client", certificatesv1.KubeAPIServerClientSignerName, request("u", "g"), []certificatesv1.KeyUsage{client, sig}, true},
		{"a client that wants to serve", certificatesv1.KubeAPIServerClientSignerName, request("u", "g"),
			[]certificatesv1.KeyUsage{client, server}, false},
		{"a kubelet", certificatesv1.KubeAPIServerClientKubeletSignerName, node, []certificatesv1.KeyUsage{client, sig}, true},
		{"somebody who says to be one", certificatesv1.KubeAPIServerClientKubeletSignerName, request("u", "system:nodes"),
			[]certificatesv1.KeyUsage{client}, false},
		{"a kubelet with names", certificatesv1.KubeAPIServerClientKubeletSignerName, request("system:node:n", "system:nodes", "n"),
			[]certificatesv1.KeyUsage{client}, false},
		{"a kubelet that serves", certificatesv1.KubeletServingSignerName, request("system:node:n", "system:nodes", "n"),
			[]certificatesv1.KeyUsage{server, sig}, true},
		{"a kubelet that serves without a name", certificatesv1.KubeletServingSignerName, node, []certificatesv1.KeyUsage{server, sig}, false},
		{"the server as agents know it", certificatesv1.KubeAPIServerClientSignerName, request("kube-apiserver-kubelet-client", "g"),
			[]certificatesv1.KeyUsage{client, sig}, false},
		{"a member of the store", certificatesv1.KubeAPIServerClientSignerName, request("system:kloop:peer", "g"),
			[]certificatesv1.KeyUsage{client, sig}, false},
		{"a member of the store, the old way", "kubernetes.io/legacy-unknown", request("system:kloop:peer", "g"),
			[]certificatesv1.KeyUsage{client}, false},
		{"a group of the server's", certificatesv1.KubeAPIServerClientSignerName, request("u", "system:kloop:x"),
			[]certificatesv1.KeyUsage{client, sig}, false},
		{"a master, the old way", "kubernetes.io/legacy-unknown", request("u", "system:masters"), []certificatesv1.KeyUsage{client}, false},
		{"not a request", certificatesv1.KubeAPIServerClientSignerName, []byte("x"), []certificatesv1.KeyUsage{client}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hour := int32(3600)
			r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: tt.signer,
				Request: tt.req, Usages: tt.usages, ExpirationSeconds: &hour}}
			var ca asked
			cert, refusal, err := sign(&ca, r, time.Unix(1, 0))
			if err != nil || (len(cert) > 0) != tt.ok || (refusal == nil) != tt.ok {
				t.Errorf("%s: %q, %v, %v", tt.name, cert, refusal, err)
			}
			if tt.ok && (ca.life != time.Hour || len(ca.ext) != 1) {
				t.Errorf("%s: the authority was asked for %+v", tt.name, ca)
			}
		})
	}
}
