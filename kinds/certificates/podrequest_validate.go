package certificates

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// The bounds of the signing request and of the issued chain in bytes, and of UIDs.
const (
	maxStubRequest = 10 << 10
	maxChain       = 100 << 10
	maxUID         = 128
)

// validatePodRequest is for certificates of pods (KEP-4317): the node asks for them, and admission has looked whether pod, account and
// node belong together. kubernetes.io signers give shorter lives.
func validatePodRequest(r, old pcr) (errs field.ErrorList) {
	s, spec := &r.Spec, field.NewPath("spec")
	if old != nil {
		return rule.Frozen(*s, old.Spec, spec)
	}
	errs = append(errs, rule.SignerName(s.SignerName, spec.Child("signerName"))...)
	errs = append(errs, rule.SignerAnnotations(s.UnverifiedUserAnnotations, spec.Child("unverifiedUserAnnotations"))...)
	for _, n := range []struct{ name, value string }{{"podName", s.PodName}, {"serviceAccountName", s.ServiceAccountName},
		{"nodeName", string(s.NodeName)}} {
		errs = append(errs, rule.Format(n.value, spec.Child(n.name), rule.Subdomain)...)
	}
	for _, n := range []struct{ name, value string }{{"podUID", string(s.PodUID)}, {"serviceAccountUID", string(s.ServiceAccountUID)},
		{"nodeUID", string(s.NodeUID)}} {
		switch {
		case n.value == "":
			errs = append(errs, field.Invalid(spec.Child(n.name), n.value, "must not be empty"))
		case len(n.value) > maxUID:
			errs = append(errs, field.TooLong(spec.Child(n.name), n.value, maxUID))
		}
	}
	if s.MaxExpirationSeconds == nil {
		return append(errs, field.Required(spec.Child("maxExpirationSeconds"), "must be set"))
	}
	if shortest, longest := rule.PodCertificateSeconds(s.SignerName); *s.MaxExpirationSeconds < shortest || *s.MaxExpirationSeconds > longest {
		errs = append(errs, field.Invalid(spec.Child("maxExpirationSeconds"), *s.MaxExpirationSeconds,
			fmt.Sprintf("must be in the range [%d, %d]", shortest, longest)))
	}
	if len(s.StubPKCS10Request) == 0 {
		return append(errs, field.Invalid(spec, field.OmitValueType{},
			"exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"))
	}
	return append(errs, stub(s.StubPKCS10Request, spec.Child("stubPKCS10Request"))...)
}

// stub checks the request that comes from the node: it proves that the asker has the key.
func stub(der []byte, path *field.Path) field.ErrorList {
	if len(der) > maxStubRequest {
		return field.ErrorList{field.TooLong(path, "", maxStubRequest)}
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return bad(path, field.OmitValueType{}, "must be a valid PKCS#10 CSR")
	}
	switch k := request.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() && k.Curve != elliptic.P384() && k.Curve != elliptic.P521() {
			return bad(path, "curve "+k.Curve.Params().Name, "elliptic public keys must use curve P256, P384, or P521")
		}
	case *rsa.PublicKey:
		if bits := k.Size() * 8; bits != 3072 && bits != 4096 {
			return bad(path, fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")
		}
	default:
		return bad(path, field.OmitValueType{}, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
	}
	if request.CheckSignature() != nil {
		return bad(path, field.OmitValueType{}, "invalid signature")
	}
	return nil
}

func bad(path *field.Path, value any, says string) field.ErrorList {
	return field.ErrorList{field.Invalid(path, value, says)}
}

// finals are the conditions one of which ends a request.
var finals = []string{certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
	certificatesv1.PodCertificateRequestConditionTypeFailed}

// end returns the condition that ended a request, or "".
func end(r pcr) string {
	for _, c := range r.Status.Conditions {
		if slices.Contains(finals, c.Type) && c.Status == metav1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// validatePodRequestStatus lets a request end once, with a certificate or without; nothing else may be written.
func validatePodRequestStatus(r, old pcr) (errs field.ErrorList) {
	path := field.NewPath("status")
	ends := 0
	for i, c := range r.Status.Conditions {
		at := path.Child("conditions", fmt.Sprintf("[%d]", i))
		if !slices.Contains(finals, c.Type) {
			errs = append(errs, rule.Among(c.Type, at.Child("type"), finals...)...)
			continue
		}
		if ends++; ends > 1 {
			errs = append(errs, field.Invalid(at.Child("type"), c.Type,
				`There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		}
		errs = append(errs, rule.Among(c.Status, at.Child("status"), metav1.ConditionTrue)...)
	}
	errs = append(errs, metavalidation.ValidateConditions(r.Status.Conditions, path.Child("conditions"))...)
	if len(errs) > 0 {
		return errs
	}
	switch bare := (certificatesv1.PodCertificateRequestStatus{Conditions: r.Status.Conditions}); {
	case end(old) != "":
		return unchanged(r.Status, old.Status, path, "immutable after PodCertificateRequest is issued, denied, or failed")
	case end(r) == certificatesv1.PodCertificateRequestConditionTypeIssued:
		return issuedToPod(r, old, path)
	case end(r) != "":
		return unchanged(r.Status, bare, path, "non-condition status fields must be empty when denying or failing the PodCertificateRequest")
	}
	return unchanged(r.Status, old.Status, path, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
}

func unchanged(is, must certificatesv1.PodCertificateRequestStatus, path *field.Path, says string) field.ErrorList {
	if resource.Same(is, must) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, field.OmitValueType{}, says)}
}
