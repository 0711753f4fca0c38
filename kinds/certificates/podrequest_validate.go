package certificates

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// The bounds of lifetimes in seconds, of the signing request and of the issued chain in bytes, and of UIDs.
const (
	minPodExpiration = 3600
	maxPodExpiration = 91 * 24 * 3600
	maxOwnExpiration = 24 * 3600 // of signers whose names begin with kubernetes.io/
	maxStubRequest   = 10 << 10
	maxChain         = 100 << 10
	maxUID           = 128
)

// validatePodRequest is for certificates of pods (KEP-4317): the node asks for them, and admission has looked whether pod, account and
// node belong together. kubernetes.io signers give shorter lives.
func validatePodRequest(r, old pcr) (errs field.ErrorList) {
	s, spec := &r.Spec, field.NewPath("spec")
	if old != nil {
		return rule.Frozen(*s, old.Spec, spec)
	}
	errs = append(errs, signer(s.SignerName, spec.Child("signerName"))...)
	errs = append(errs, userAnnotations(s.UnverifiedUserAnnotations, spec.Child("unverifiedUserAnnotations"))...)
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
	longest := int32(maxPodExpiration)
	if strings.HasPrefix(s.SignerName, "kubernetes.io/") {
		longest = maxOwnExpiration
	}
	errs = append(errs, rule.Within(*s.MaxExpirationSeconds, minPodExpiration, longest, spec.Child("maxExpirationSeconds"))...)
	if len(s.StubPKCS10Request) == 0 {
		return append(errs, field.Invalid(spec, field.OmitValueType{},
			"exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"))
	}
	return append(errs, stub(s.StubPKCS10Request, spec.Child("stubPKCS10Request"))...)
}

// userAnnotations are like an object's, but every key needs a domain.
func userAnnotations(list map[string]string, path *field.Path) field.ErrorList {
	errs := validation.ValidateAnnotations(list, path)
	for k := range list {
		if !strings.Contains(k, "/") {
			errs = append(errs, field.Invalid(path, k, "must be domain-prefixed"))
		}
	}
	return errs
}

// stub checks the request that comes from the node: it proves that the asker has the key.
func stub(der []byte, path *field.Path) field.ErrorList {
	if len(der) > maxStubRequest {
		return field.ErrorList{field.TooLong(path, "", maxStubRequest)}
	}
	request, err := x509.ParseCertificateRequest(der)
	if err == nil {
		err = request.CheckSignature()
	}
	if err == nil {
		err = acceptable(request.PublicKey)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return nil
}

// acceptable are keys that are strong enough, and no more sorts than a signer can be expected to know.
func acceptable(key any) error {
	switch k := key.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() && k.Curve != elliptic.P384() && k.Curve != elliptic.P521() {
			return errors.New("elliptic public keys must use curve P256, P384 or P521")
		}
	case *rsa.PublicKey:
		if bits := k.Size() * 8; bits != 3072 && bits != 4096 {
			return errors.New("RSA keys must have modulus size 3072 or 4096")
		}
	default:
		return errors.New("unknown public key type; supported types are Ed25519, ECDSA, and RSA")
	}
	return nil
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

// issuedToPod checks what was issued: to the right key, for as long as the status says and the request allows.
func issuedToPod(r, old pcr, status *field.Path) field.ErrorList {
	s, at := &r.Status, status.Child("certificateChain")
	if len(s.CertificateChain) > maxChain {
		return field.ErrorList{field.TooLong(at, "", maxChain)}
	}
	bad := func(path *field.Path, says string) field.ErrorList {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, says)}
	}
	chain, err := parseCertificates([]byte(s.CertificateChain))
	if err != nil {
		return bad(at, err.Error())
	}
	leaf := chain[0]
	asked, err := x509.ParseCertificateRequest(old.Spec.StubPKCS10Request)
	if err != nil {
		return bad(field.NewPath("spec", "stubPKCS10Request"), err.Error())
	}
	if key, ok := asked.PublicKey.(interface{ Equal(any) bool }); ok && !key.Equal(leaf.PublicKey) {
		return bad(at, "leaf certificate was not issued to the requested public key")
	}
	if errs := timesThere(s, status); len(errs) > 0 {
		return errs
	}
	switch life := leaf.NotAfter.Sub(leaf.NotBefore); {
	case !s.NotBefore.Time.Equal(leaf.NotBefore):
		return bad(status.Child("notBefore"), "must be set to the NotBefore time encoded in the leaf certificate")
	case time.Since(leaf.NotBefore).Abs() >= 5*time.Minute:
		return bad(status.Child("notBefore"), "must be set to within 5 minutes of kube-apiserver's current time")
	case !s.NotAfter.Time.Equal(leaf.NotAfter):
		return bad(status.Child("notAfter"), "must be set to the NotAfter time encoded in the leaf certificate")
	case life < time.Hour:
		return bad(at, "leaf certificate lifetime must be >= 1 hour")
	case life > time.Duration(*r.Spec.MaxExpirationSeconds)*time.Second:
		return bad(at, fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%d)", *r.Spec.MaxExpirationSeconds))
	case s.BeginRefreshAt.Time.Before(leaf.NotBefore.Add(10 * time.Minute)):
		return bad(status.Child("beginRefreshAt"), "must be at least 10 minutes after status.notBefore")
	case s.BeginRefreshAt.After(leaf.NotAfter.Add(-10 * time.Minute)):
		return bad(status.Child("beginRefreshAt"), "must be at least 10 minutes before status.notAfter")
	}
	return nil
}

func timesThere(s *certificatesv1.PodCertificateRequestStatus, status *field.Path) (errs field.ErrorList) {
	for _, f := range []struct {
		name string
		time *metav1.Time
		says string
	}{
		{"notBefore", s.NotBefore, "must be present and consistent with the issued certificate"},
		{"notAfter", s.NotAfter, "must be present and consistent with the issued certificate"},
		{"beginRefreshAt", s.BeginRefreshAt, "must be present and in the range [notbefore+10min, notafter-10min]"},
	} {
		if f.time == nil {
			errs = append(errs, field.Required(status.Child(f.name), f.says))
		}
	}
	return errs
}
