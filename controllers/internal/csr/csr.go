// Package csr holds what the loops over certificate requests share: reading a request, and what kubelets may ask for.
package csr

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/certificates"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Parse reads the request that the object carries.
func Parse(r *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// Condition says whether the request has the condition.
func Condition(r *certificatesv1.CertificateSigningRequest,
	t certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	for i := range r.Status.Conditions {
		if c := &r.Status.Conditions[i]; c.Type == t && c.Status != corev1.ConditionFalse {
			return c
		}
	}
	return nil
}

// Decided says that somebody has approved or denied the request, or that it is beyond that.
func Decided(r *certificatesv1.CertificateSigningRequest) bool {
	return len(r.Status.Certificate) > 0 || Condition(r, certificatesv1.CertificateApproved) != nil ||
		Condition(r, certificatesv1.CertificateDenied) != nil
}

// Approve approves the request; message says why.
func Approve(ctx context.Context, c *loop.Ctx, r *certificatesv1.CertificateSigningRequest, message string) error {
	next := resource.Clone(r)
	now := metav1.NewTime(c.Now())
	next.Status.Conditions = append(next.Status.Conditions,
		certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved,
			Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: message, LastUpdateTime: now, LastTransitionTime: now})
	_, err := c.Client().Update(ctx, certificates.CertificateSigningRequests, next, "approval")
	return err
}

// CheckClient says in upstream's words what is wrong with the request of a kubelet for its client certificate: the first of its faults.
func CheckClient(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	return cmp.Or(
		organization(req),
		fault(len(req.DNSNames) > 0, "DNS subjectAltNames are not allowed"),
		fault(len(req.EmailAddresses) > 0, "Email subjectAltNames are not allowed"),
		fault(len(req.IPAddresses) > 0, "IP subjectAltNames are not allowed"),
		fault(len(req.URIs) > 0, "URI subjectAltNames are not allowed"),
		nodeName(req),
		kubeletUsages(usages, certificatesv1.UsageClientAuth))
}

// CheckServing says the same of a kubelet's request for its serving certificate.
func CheckServing(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	return cmp.Or(
		organization(req),
		fault(len(req.DNSNames)+len(req.IPAddresses) == 0, "DNS or IP subjectAltName is required"),
		fault(len(req.EmailAddresses) > 0, "Email subjectAltNames are not allowed"),
		fault(len(req.URIs) > 0, "URI subjectAltNames are not allowed"),
		kubeletUsages(usages, certificatesv1.UsageServerAuth),
		nodeName(req))
}

func fault(is bool, text string) error {
	if is {
		return errors.New(text)
	}
	return nil
}

func organization(req *x509.CertificateRequest) error {
	return fault(!slices.Equal(req.Subject.Organization, []string{"system:nodes"}), "subject organization is not system:nodes")
}

func nodeName(req *x509.CertificateRequest) error {
	return fault(!strings.HasPrefix(req.Subject.CommonName, "system:node:"), "subject common name does not begin with system:node:")
}

// kubeletUsages are the wanted one and signing, and enciphering of keys or not.
func kubeletUsages(usages []certificatesv1.KeyUsage, auth certificatesv1.KeyUsage) error {
	all := []certificatesv1.KeyUsage{auth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
	have := slices.Clone(usages)
	slices.Sort(have)
	slices.Sort(all)
	least := slices.DeleteFunc(slices.Clone(all), func(u certificatesv1.KeyUsage) bool { return u == certificatesv1.UsageKeyEncipherment })
	if have = slices.Compact(have); slices.Equal(have, all) || slices.Equal(have, least) {
		return nil
	}
	return fmt.Errorf("usages did not match %v", all)
}

// CheckUsages says that the usages are not those of a client: its authentication, with what signing and encipherment need.
func CheckUsages(usages []certificatesv1.KeyUsage) error {
	for _, u := range usages {
		if u != certificatesv1.UsageClientAuth && u != certificatesv1.UsageDigitalSignature && u != certificatesv1.UsageKeyEncipherment {
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	return fault(!slices.Contains(usages, certificatesv1.UsageClientAuth), "missing required usage for client certificate: client auth")
}
