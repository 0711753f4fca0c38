package cluster_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// TestNodeAtTheServersAddress: its serving certificate waits for a person, which is told of the request and, when asked, of the node.
func TestNodeAtTheServersAddress(t *testing.T) {
	ctx, c := t.Context(), start(t, cluster.Config{})
	admin := clientset(t, config(t, c))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}}}
	must[*corev1.Node](t)(admin.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}))
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := must[[]byte](t)(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: "system:node:n1", Organization: []string{auth.GroupNodes}}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, key))
	node, _ := as(t, c, "system:node:n1", auth.GroupNodes)
	must[*certificatesv1.CertificateSigningRequest](t)(node.CertificatesV1().CertificateSigningRequests().Create(ctx,
		&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}, metav1.CreateOptions{}))
	for object, want := range map[string]string{
		"certificatesigningrequests.certificates.k8s.io:one": "127.0.0.1 is also how the API is reached",
		"nodes:n1": "asks for a serving certificate, which nobody has approved",
	} {
		eventually(t, object+" says "+want, func(ctx context.Context) (bool, error) {
			g := &convergence.Gap{}
			err := told(ctx, admin, "/namespaces/default/gaps/"+object, g)
			return err == nil && strings.Contains(g.Because, want) &&
				strings.Contains(strings.Join(g.Commands, "\n"), "kubectl certificate approve one"), nil
		})
	}
}
