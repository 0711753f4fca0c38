package certificates

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// issuedToPod checks what was issued: to the right key, for as long as the status says and the request allows.
func issuedToPod(r, old pcr, status *field.Path) field.ErrorList {
	s, at := &r.Status, status.Child("certificateChain")
	if len(s.CertificateChain) > maxChain {
		return field.ErrorList{field.TooLong(at, "", maxChain)}
	}
	leaf, says := leafOf(s.CertificateChain)
	if leaf == nil {
		return bad(at, s.CertificateChain, says)
	}
	if errs := leafNames(leaf, at); len(errs) > 0 {
		return errs
	}
	asked, err := x509.ParseCertificateRequest(old.Spec.StubPKCS10Request)
	if err != nil {
		return bad(field.NewPath("spec", "stubPKCS10Request"), field.OmitValueType{}, "must be a valid PKCS#10 CSR")
	}
	if key, ok := asked.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); ok && !key.Equal(leaf.PublicKey) {
		return bad(at, s.CertificateChain, "leaf certificate was not issued to the requested public key")
	}
	if errs := timesThere(s, status); len(errs) > 0 {
		return errs
	}
	if errs := timesOf(r, leaf, status); len(errs) > 0 {
		return errs
	}
	if says := chainEnd(s.CertificateChain); says != "" {
		return bad(at, s.CertificateChain, says)
	}
	return nil
}

// leafOf returns the first certificate of a chain, or says what is wrong with it.
func leafOf(chain string) (leaf *x509.Certificate, says string) {
	block, _ := pem.Decode([]byte(chain))
	if block == nil {
		return nil, "issued certificate chain must contain at least one certificate"
	}
	if block.Type != certificateBlock {
		return nil, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, "leaf certificate does not parse as valid X.509"
	}
	return leaf, ""
}

// chainEnd says what is wrong with the certificates that follow the first.
func chainEnd(chain string) string {
	for i, block := range blocks([]byte(chain)) {
		switch {
		case i == 0:
		case block.Type != certificateBlock:
			return "issued certificate chain must consist entirely of CERTFICATE PEM blocks" // so written by upstream
		default:
			if _, err := x509.ParseCertificate(block.Bytes); err != nil {
				return "intermediate certificate does not parse as valid X.509"
			}
		}
	}
	return ""
}

// leafNames refuses names that readers of certificates take for errors.
func leafNames(leaf *x509.Certificate, at *field.Path) (errs field.ErrorList) {
	for _, name := range leaf.DNSNames {
		if name == "" {
			errs = append(errs, field.Invalid(at, name, "leaf certificate should not contain empty DNSName"))
		}
		if strings.Contains(name, "..") {
			errs = append(errs, field.Invalid(at, name, "leaf certificate's DNSName should not contain '..'"))
		}
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			errs = append(errs, field.Invalid(at, name, "leaf certificate's DNSName should not start or end with '.'"))
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			errs = append(errs, field.Invalid(at, address, "leaf certificate should not contain invalid EmailAddress"))
		}
	}
	return errs
}

// timesOf holds the times of a status to those of the certificate, and these to the request.
func timesOf(r pcr, leaf *x509.Certificate, status *field.Path) field.ErrorList {
	s, chain := &r.Status, status.Child("certificateChain")
	before, after, refresh := s.NotBefore.Time, s.NotAfter.Time, s.BeginRefreshAt.Time
	switch life := leaf.NotAfter.Sub(leaf.NotBefore); {
	case !before.Equal(leaf.NotBefore):
		return bad(status.Child("notBefore"), before, "must be set to the NotBefore time encoded in the leaf certificate")
	case time.Since(before).Abs() >= 5*time.Minute:
		return bad(status.Child("notBefore"), before, "must be set to within 5 minutes of kube-apiserver's current time")
	case !after.Equal(leaf.NotAfter):
		return bad(status.Child("notAfter"), after, "must be set to the NotAfter time encoded in the leaf certificate")
	case life < time.Hour:
		return bad(chain, life, "leaf certificate lifetime must be >= 1 hour")
	case life > time.Duration(*r.Spec.MaxExpirationSeconds)*time.Second:
		return bad(chain, life, fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%d)", *r.Spec.MaxExpirationSeconds))
	case refresh.Before(before.Add(10 * time.Minute)):
		return bad(status.Child("beginRefreshAt"), refresh, "must be at least 10 minutes after status.notBefore")
	case refresh.After(after.Add(-10 * time.Minute)):
		return bad(status.Child("beginRefreshAt"), refresh, "must be at least 10 minutes before status.notAfter")
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
