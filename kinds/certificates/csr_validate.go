package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// minExpiration is the shortest life of a certificate that may be asked for, in seconds.
const minExpiration = 600

// certificateBlock is the type of a PEM block that holds a certificate.
const certificateBlock = "CERTIFICATE"

var usages = []certificatesv1.KeyUsage{certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature,
	certificatesv1.UsageContentCommitment, certificatesv1.UsageKeyEncipherment,
	certificatesv1.UsageKeyAgreement, certificatesv1.UsageDataEncipherment, certificatesv1.UsageCertSign, certificatesv1.UsageCRLSign,
	certificatesv1.UsageEncipherOnly,
	certificatesv1.UsageDecipherOnly, certificatesv1.UsageAny, certificatesv1.UsageServerAuth, certificatesv1.UsageClientAuth,
	certificatesv1.UsageCodeSigning,
	certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME, certificatesv1.UsageIPsecEndSystem,
	certificatesv1.UsageIPsecTunnel, certificatesv1.UsageIPsecUser,
	certificatesv1.UsageTimestamping, certificatesv1.UsageOCSPSigning, certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC}

// validateRequest is for new requests. Later nothing of the spec can change: who approves must know what is approved.
func validateRequest(r, old csr) (errs field.ErrorList) {
	if old != nil {
		return conditions(r, old, true, false)
	}
	s, spec := &r.Spec, field.NewPath("spec")
	if err := parseRequest(s.Request); err != nil {
		errs = append(errs, field.Invalid(spec.Child("request"), s.Request, err.Error()))
	}
	if len(s.Usages) == 0 {
		errs = append(errs, field.Required(spec.Child("usages"), ""))
	}
	for i, u := range s.Usages {
		errs = append(errs, rule.Among(u, spec.Child("usages").Index(i), usages...)...)
	}
	errs = append(errs, rule.Duplicates(s.Usages, spec.Child("usages").Index)...)
	if s.SignerName == "kubernetes.io/legacy-unknown" {
		errs = append(errs, field.Invalid(spec.Child("signerName"), s.SignerName, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, rule.SignerName(s.SignerName, spec.Child("signerName"))...)
	}
	if e := s.ExpirationSeconds; e != nil && *e < minExpiration {
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), *e, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	return append(errs, conditions(r, nil, false, false)...)
}

// parseRequest checks that the request is signed by its own key, which shows that its author has the key.
func parseRequest(b []byte) error {
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return request.CheckSignature()
}

// decisions are the conditions by which a request is approved or not.
var decisions = []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied}

// validateRequestStatus keeps decisions out of /status: they are made at /approval, which is a right of its own.
func validateRequestStatus(on *features.Set, r, old csr) field.ErrorList {
	errs := conditions(r, old, false, on.AtLeast(37))
	for _, t := range decisions {
		// What stayed was restored.
		if now, was := len(indexes(r, t)), len(indexes(old, t)); now > was {
			errs = append(errs, field.Forbidden(field.NewPath("status", "conditions"), fmt.Sprintf("updates may not add a condition of type %q", t)))
		}
	}
	return append(errs, issued(r, old)...)
}

// issued checks a certificate: once there, it stays.
func issued(r, old csr) (errs field.ErrorList) {
	path, cert := field.NewPath("status", "certificate"), r.Status.Certificate
	if bytes.Equal(cert, old.Status.Certificate) {
		return nil
	}
	if len(cert) > 0 {
		if _, err := parseCertificates(cert); err != nil {
			errs = append(errs, field.Invalid(path, "<certificate data>", err.Error()))
		}
	}
	if len(old.Status.Certificate) > 0 {
		errs = append(errs, field.Forbidden(path, "updates may not modify existing certificate content"))
	}
	return errs
}

// parseCertificates takes nothing but certificates: clients put the text into files as it is.
func parseCertificates(b []byte) (list []*x509.Certificate, err error) {
	for _, block := range blocks(b) {
		if block.Type != certificateBlock {
			return nil, errors.New("only CERTIFICATE PEM blocks are allowed, found \"" + block.Type + "\"")
		}
		if len(block.Headers) != 0 {
			return nil, errors.New("no PEM block headers are permitted")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, cert)
	}
	if len(list) == 0 {
		return nil, errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return list, nil
}

func validateApproval(on *features.Set, r, old csr) field.ErrorList {
	return conditions(r, old, false, on.AtLeast(37))
}

// Since 1.37 a declared rule finds conditions that contradict each other.
const (
	bothListed = `{conditions[{"type": "Approved"}], conditions[{"type": "Denied"}]}`
	oneOfBoth  = "must specify at most one of: `conditions[{\"type\": \"Approved\"}]`, `conditions[{\"type\": \"Denied\"}]`"
)

// conditions checks each condition, that no two contradict, and that none was taken back.
func conditions(r, old csr, unchanged, declared bool) (errs field.ErrorList) {
	path, seen := field.NewPath("status", "conditions"), []certificatesv1.RequestConditionType{}
	for i, c := range r.Status.Conditions {
		at := path.Index(i)
		if c.Type == "" {
			errs = append(errs, field.Required(at.Child("type"), ""))
		}
		lasting := c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied ||
			c.Type == certificatesv1.CertificateFailed
		if lasting {
			errs = append(errs, rule.Chosen(c.Status, at.Child("status"), corev1.ConditionTrue)...)
		} else {
			errs = append(errs, rule.Chosen(c.Status, at.Child("status"), corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown)...)
		}
		if slices.Contains(seen, c.Type) && (old == nil || !repeats(old)) {
			errs = append(errs, field.Duplicate(at.Child("type"), c.Type))
		}
		seen = append(seen, c.Type)
	}
	switch {
	case !has(r, certificatesv1.CertificateApproved) || !has(r, certificatesv1.CertificateDenied) || unchanged:
	case declared:
		errs = append(errs, field.Invalid(path, bothListed, oneOfBoth))
	default:
		errs = append(errs, field.Invalid(path, certificatesv1.CertificateDenied, "Approved and Denied conditions are mutually exclusive"))
	}
	if old == nil {
		return errs
	}
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied,
		certificatesv1.CertificateFailed} {
		if has(old, t) && !has(r, t) {
			errs = append(errs, field.Forbidden(path, "updates may not remove a condition of type \""+string(t)+"\""))
		}
	}
	return errs
}

func repeats(r csr) bool {
	for i, c := range r.Status.Conditions {
		for _, b := range r.Status.Conditions[:i] {
			if b.Type == c.Type {
				return true
			}
		}
	}
	return false
}
