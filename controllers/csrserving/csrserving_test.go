package csrserving

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(name string, addrs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, a := range addrs {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name, user, of string
		dns, ips       []string
		own            *corev1.Node
		why            string // "": approved
	}{
		{"name and address", "n1", "n1", []string{"n1"}, []string{"10.0.0.1"}, node("n1", "10.0.0.1"), ""},
		{"a host name that the node reports", "n1", "n1", []string{"Host-1.example"}, nil, node("n1", "10.0.0.1", "host-1.example"), ""},
		{"for another node", "n1", "n2", []string{"n1"}, nil, node("n1"), "only a node itself gets it"},
		{"no node yet", "n1", "n1", []string{"n1"}, nil, nil, "there is no Node n1"},
		{"an address that is not reported", "n1", "n1", []string{"n1"}, []string{"10.0.0.9"}, node("n1", "10.0.0.1"), "10.0.0.9 is not among"},
		{"the address of another node", "n1", "n1", nil, []string{"10.0.0.2"}, node("n1", "10.0.0.2"), "10.0.0.2 also belongs to the Node n2"},
		{"the name of another node", "n1", "n1", []string{"n2"}, nil, node("n1", "n2"), "n2 also belongs to the Node n2"},
		{"the address of the API", "n1", "n1", nil, []string{"10.0.0.100"}, node("n1", "10.0.0.100"), "how the API is reached"},
		{"loopback", "n1", "n1", nil, []string{"127.0.0.1"}, node("n1", "127.0.0.1"), "how the API is reached"},
		{"the service's name", "n1", "n1", []string{"kubernetes.default.svc"}, nil, node("n1", "kubernetes.default.svc"),
			"how the API is reached"},
		{"a name of a server that is gone", "n1", "n1", []string{"API.example.com"}, nil, node("n1", "api.example.com"),
			"how the API is reached"},
		{"a dot at the end", "n1", "n1", []string{"api.example.com."}, nil, node("n1", "api.example.com."), "how the API is reached"},
		{"a node that is called like a server", "api.example.com", "api.example.com", []string{"api.example.com"}, nil,
			node("api.example.com"), "how the API is reached"},
		{"under a server's wildcard", "n1", "n1", []string{"a.wild.example"}, nil, node("n1", "a.wild.example"), "how the API is reached"},
		{"beyond a server's wildcard", "n1", "n1", []string{"a.b.wild.example"}, nil, node("n1", "a.b.wild.example"), ""},
		{"an address of a server in other words", "n1", "n1", nil, []string{"10.0.0.101"}, node("n1", "::ffff:10.0.0.101"),
			"how the API is reached"},
		{"the address of another node in other words", "n1", "n1", nil, []string{"fd00::2"}, node("n1", "fd00::2"),
			"fd00::2 also belongs to the Node n2"},
		{"the name by which servers join", "n1", "n1", []string{"join.kloop.internal"}, nil, node("n1", "join.kloop.internal"),
			"how the API is reached"},
		{"a wildcard", "n1", "n1", []string{"*.example"}, nil, node("n1", "*.example"), "how the API is reached"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := &x509.CertificateRequest{Subject: pkix.Name{CommonName: nodePrefix + tt.of}, DNSNames: tt.dns}
			for _, ip := range tt.ips {
				req.IPAddresses = append(req.IPAddresses, net.ParseIP(ip))
			}
			r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Username: nodePrefix + tt.user,
				Groups: []string{"system:nodes"}}}
			got := plan(r, req, world{node: tt.own, others: []*corev1.Node{node("n2", "10.0.0.2", "fd00:0::2")},
				api: []string{"10.0.0.100", "api.example.com", "*.wild.example", "::ffff:10.0.0.101"}, known: true})
			if (got == "") != (tt.why == "") || !strings.Contains(got, tt.why) {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.why)
			}
		})
	}
}

// A world in which nobody wrote the names of the API's servers is one in which nobody can be vouched for.
func TestUnknownServers(t *testing.T) {
	req := &x509.CertificateRequest{Subject: pkix.Name{CommonName: nodePrefix + "n1"}, DNSNames: []string{"n1"}}
	r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Username: nodePrefix + "n1",
		Groups: []string{"system:nodes"}}}
	if got := plan(r, req, world{node: node("n1")}); !strings.Contains(got, "names of the API's servers are not known") {
		t.Errorf("%q", got)
	}
}
