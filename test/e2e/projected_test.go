//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth/pki"
)

const testSigner = "e2e.example/pods"

// anchorsOf publishes an authority's certificate under a name.
func anchorsOf(t *testing.T, name string, ca *pki.Authority) {
	t.Helper()
	apply(t, "default", fmt.Sprintf("apiVersion: certificates.k8s.io/v1\nkind: ClusterTrustBundle\n"+
		"metadata: {name: '%s', labels: {for: e2e}}\nspec:\n"+
		"  signerName: %s\n  trustBundle: |\n%s\n", name, testSigner, indent(4, string(ca.PEM()))))
	t.Cleanup(func() { kubectl(t, "delete", "clustertrustbundle", name) })
}

// issue answers the requests for certificates of the namespace that nobody has answered, and says how many.
func issue(t *testing.T, ns string, ca *pki.Authority) (n int) {
	t.Helper()
	api := it.client.CertificatesV1().PodCertificateRequests(ns)
	list, err := api.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		r := &list.Items[i]
		if r.Spec.SignerName != testSigner || len(r.Status.Conditions) > 0 {
			continue
		}
		req, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Now().Truncate(time.Second)
		leaf := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), DNSNames: []string{r.Spec.PodName},
			NotBefore: from, NotAfter: from.Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, leaf, ca.Cert(), req.PublicKey, ca.Key())
		if err != nil {
			t.Fatal(err)
		}
		at := func(d time.Duration) *metav1.Time { m := metav1.NewTime(from.Add(d)); return &m }
		r.Status = certificatesv1.PodCertificateRequestStatus{
			CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
			NotBefore:        at(0), BeginRefreshAt: at(40 * time.Minute),
			NotAfter: at(time.Hour), Conditions: []metav1.Condition{{Type: "Issued", Status: "True", Reason: "Test", LastTransitionTime: *at(0)}}}
		if _, err := api.UpdateStatus(context.Background(), r, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestProjectedCertificates: on both nodes a pod gets a certificate of its own, once its signer has answered, and the trust bundles
// that it names, which follow.
func TestProjectedCertificates(t *testing.T) {
	join(t)
	ns := space(t)
	keys, err := pki.Open(pki.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ca, other := keys.CA, keys.FrontProxy
	name := strings.Replace(testSigner, "/", ":", 1) + ":" + ns
	anchorsOf(t, name, ca)
	var manifest string
	for _, n := range nodes {
		manifest += onePod("on-"+n.name, "sleep 1000", "nodeName: "+n.name+"\nvolumes:\n- name: v\n  projected:\n    sources:\n"+
			"    - {clusterTrustBundle: {name: '"+name+"', path: named}}\n"+
			"    - {clusterTrustBundle: {signerName: "+testSigner+", labelSelector: {matchLabels: {for: e2e}}, path: of-signer}}\n"+
			"    - {clusterTrustBundle: {name: nobody, path: none, optional: true}}\n"+
			"    - {podCertificate: {signerName: "+testSigner+", keyType: ECDSAP256, maxExpirationSeconds: 3600, "+
			"credentialBundlePath: mine}}\n",
			"volumeMounts: [{name: v, mountPath: /v}]")
	}
	apply(t, ns, manifest)
	explains(t, ns, "pod/on-"+nodes[1].name, "signer "+testSigner+" has not answered PodCertificateRequest")
	answered := 0
	eventually(t, "both nodes asked", func() (bool, string) { answered += issue(t, ns, ca); return answered == 2, fmt.Sprint(answered) })
	for _, n := range nodes {
		pod := "on-" + n.name
		reaches(t, ns, pod, corev1.PodRunning)
		mine := kubectl(t, "exec", "-n", ns, pod, "--", "cat", "/v/mine") + "\n"
		pair, err := tls.X509KeyPair([]byte(mine), []byte(mine))
		if err != nil {
			t.Fatalf("%s: %v", n.name, err)
		}
		if leaf, err := x509.ParseCertificate(pair.Certificate[0]); err != nil || leaf.VerifyHostname(pod) != nil {
			t.Errorf("%s has the certificate of another: %v", pod, err)
		}
		for file, want := range map[string]string{"named": string(ca.PEM()), "of-signer": string(ca.PEM()), "none": ""} {
			if got := kubectl(t, "exec", "-n", ns, pod, "--", "cat", "/v/"+file); got != strings.TrimSpace(want) {
				t.Errorf("%s: %s is %q", n.name, file, got)
			}
		}
	}
	anchorsOf(t, name+"-2", other)
	for _, n := range nodes {
		eventually(t, "the bundles of the signer on "+n.name+" follow", func() (bool, string) {
			got := kubectl(t, "exec", "-n", ns, "on-"+n.name, "--", "cat", "/v/of-signer")
			return strings.Count(got, "BEGIN CERTIFICATE") == 2, got
		})
	}
	if n := issue(t, ns, ca); n != 0 {
		t.Errorf("%d certificates were asked for anew", n)
	}
}
