package cluster_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/cluster"
)

// as returns a client that acts as the user.
func as(t *testing.T, c *cluster.Cluster, user string, groups ...string) (*kubernetes.Clientset, *rest.Config) {
	t.Helper()
	text, err := c.Kubeconfig(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	return clientset(t, cfg), cfg
}

// TestNodeRenewsItsCertificate has a node ask for its next client certificate, which is approved and signed, and use it.
// A node that asks for the certificate of another is refused.
func TestNodeRenewsItsCertificate(t *testing.T) {
	ctx := t.Context()
	c := start(t, cluster.Config{})
	node, cfg := as(t, c, "system:node:n1", auth.GroupNodes)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(name, of string) error {
		t.Helper()
		der, err := x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{Subject: pkix.Name{CommonName: of, Organization: []string{auth.GroupNodes}}}, key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = node.CertificatesV1().CertificateSigningRequests().Create(ctx,
			&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
					Usages:  []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
					Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}, metav1.CreateOptions{})
		return err
	}
	if err := ask("other", "system:node:n2"); !apierrors.IsForbidden(err) {
		t.Errorf("a request for another node's certificate: %v", err)
	}
	if err := ask("own", "system:node:n1"); err != nil {
		t.Fatal(err)
	}
	var cert []byte
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		r, err := node.CertificatesV1().CertificateSigningRequests().Get(ctx, "own", metav1.GetOptions{})
		if err == nil {
			cert = r.Status.Certificate
		}
		return len(cert) > 0, err
	})
	if err != nil {
		t.Fatal("the request of the node was not answered: ", err)
	}
	der, _ := x509.MarshalECPrivateKey(key)
	next := rest.CopyConfig(cfg)
	next.CertData, next.KeyData = cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	renewed := clientset(t, next)
	if _, err := renewed.CoreV1().Services("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("the new certificate is not believed: %v", err)
	}
	if _, err := renewed.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("a node can't program services: %v", err)
	}
}
