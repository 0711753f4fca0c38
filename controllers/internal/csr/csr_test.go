package csr

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// TestChecks has the texts of refusals.
func TestChecks(t *testing.T) {
	fine := x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}}
	with := func(edit func(r *x509.CertificateRequest)) *x509.CertificateRequest {
		r := fine
		edit(&r)
		return &r
	}
	dns := func(r *x509.CertificateRequest) { r.DNSNames = []string{"n"} }
	other := with(func(r *x509.CertificateRequest) { r.Subject.CommonName = "n" })
	for _, tt := range []struct {
		kind, usages string
		req          *x509.CertificateRequest
		want         string
	}{
		{"client", "client auth,digital signature", &fine, "<nil>"},
		{"client", "key encipherment,client auth,digital signature", &fine, "<nil>"},
		{"client", "client auth", &fine, "usages did not match [client auth digital signature key encipherment]"},
		{"client", "client auth,digital signature,server auth", &fine, "usages did not match [client auth digital signature key encipherment]"},
		{"client", "", with(func(r *x509.CertificateRequest) { r.Subject.Organization = nil }), "subject organization is not system:nodes"},
		{"client", "", with(dns), "DNS subjectAltNames are not allowed"},
		{"client", "", with(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a"} }), "Email subjectAltNames are not allowed"},
		{"client", "", with(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{1}} }), "IP subjectAltNames are not allowed"},
		{"client", "", with(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{}} }), "URI subjectAltNames are not allowed"},
		{"client", "", other, "subject common name does not begin with system:node:"},
		{"serving", "server auth,digital signature", with(dns), "<nil>"},
		{"serving", "", &fine, "DNS or IP subjectAltName is required"},
		{"serving", "client auth", with(dns), "usages did not match [digital signature key encipherment server auth]"},
		{"serving", "server auth,digital signature", with(func(r *x509.CertificateRequest) { dns(r); r.Subject.CommonName = "n" }),
			"subject common name does not begin with system:node:"},
		{"any", "client auth", nil, "<nil>"},
		{"any", "client auth,any", nil, "invalid usage for client certificate: any"},
		{"any", "digital signature", nil, "missing required usage for client certificate: client auth"},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			var usages []certificatesv1.KeyUsage
			for u := range strings.SplitSeq(tt.usages, ",") {
				usages = append(usages, certificatesv1.KeyUsage(u))
			}
			var err error
			switch tt.kind {
			case "client":
				err = CheckClient(tt.req, usages)
			case "serving":
				err = CheckServing(tt.req, usages)
			default:
				err = CheckUsages(usages)
			}
			if got := fmt.Sprint(err); got != tt.want {
				t.Errorf("%s, %s: %s, want %s", tt.kind, tt.usages, got, tt.want)
			}
		})
	}
}
