// Package csr holds what the loops over certificate requests share: reading a request, and what kubelets may ask for.
package csr

import (
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

	"github.com/kloop-dev/kloop/kinds"
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
	_, err := c.Client().Update(ctx, kinds.CertificateSigningRequests, next, "approval")
	return err
}

// CheckClient says what is wrong with the request of a kubelet for its client certificate.
func CheckClient(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	if err := checkNode(req); err != nil {
		return err
	}
	if len(req.DNSNames)+len(req.IPAddresses) > 0 {
		return errors.New("DNS and IP subjectAltNames are not allowed")
	}
	return checkNodeUsages(usages, certificatesv1.UsageClientAuth)
}

// CheckServing says what is wrong with the request of a kubelet for its serving certificate.
func CheckServing(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	if err := checkNode(req); err != nil {
		return err
	}
	if len(req.DNSNames)+len(req.IPAddresses) == 0 {
		return errors.New("DNS or IP subjectAltName is required")
	}
	return checkNodeUsages(usages, certificatesv1.UsageServerAuth)
}

func checkNodeUsages(usages []certificatesv1.KeyUsage, want certificatesv1.KeyUsage) error {
	if !slices.Contains(usages, certificatesv1.UsageDigitalSignature) {
		return fmt.Errorf("usage %q is required", certificatesv1.UsageDigitalSignature)
	}
	return CheckUsages(usages, want)
}

func checkNode(req *x509.CertificateRequest) error {
	switch {
	case !slices.Equal(req.Subject.Organization, []string{"system:nodes"}):
		return errors.New("subject organization is not system:nodes")
	case !strings.HasPrefix(req.Subject.CommonName, "system:node:"):
		return errors.New("subject common name does not begin with \"system:node:\"")
	case len(req.EmailAddresses)+len(req.URIs) > 0:
		return errors.New("email and URI subjectAltNames are not allowed")
	}
	return nil
}

// CheckUsages says that the usages are not the wanted one, with what signing and encipherment need.
func CheckUsages(usages []certificatesv1.KeyUsage, want certificatesv1.KeyUsage) error {
	for _, u := range usages {
		if u != want && u != certificatesv1.UsageDigitalSignature && u != certificatesv1.UsageKeyEncipherment {
			return fmt.Errorf("usage %q is not allowed", u)
		}
	}
	if !slices.Contains(usages, want) {
		return fmt.Errorf("usage %q is required", want)
	}
	return nil
}
