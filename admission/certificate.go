package admission

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kloop-dev/kloop/auth"
)

// signers asks whether callers may act for the signers of certificates.
type signers struct{ authorize auth.Authorizer }

// may asks for the signer itself, then for all of its domain.
func (s signers) may(ctx context.Context, r *Request, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		d, _, err := s.authorize.Authorize(ctx, &auth.Attributes{User: r.User, Verb: verb, Group: certificatesv1.GroupName,
			Version: "*", Resource: "signers", Name: name})
		if err == nil && d == auth.Allow {
			return true
		}
	}
	return false
}

// approval lets only those approve requests who may for the signer.
func (s signers) approval(ctx context.Context, r *Request) error {
	old, ok := r.Old.(*certificatesv1.CertificateSigningRequest)
	if !ok || r.Op != Update || r.Sub != "approval" || s.may(ctx, r, "approve", old.Spec.SignerName) {
		return nil
	}
	return r.Refuse("user not permitted to approve requests with signerName %q", old.Spec.SignerName)
}

// signing lets only those issue certificates who may for the signer.
func (s signers) signing(ctx context.Context, r *Request) error {
	if r.Op != Update || r.Sub != "status" {
		return nil
	}
	n, ok := r.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil
	}
	old, ok := r.Old.(*certificatesv1.CertificateSigningRequest)
	if !ok || slices.Equal(n.Status.Certificate, old.Status.Certificate) &&
		equality.Semantic.DeepEqual(n.Status.Conditions, old.Status.Conditions) || s.may(ctx, r, "sign", old.Spec.SignerName) {
		return nil
	}
	return r.Refuse("user not permitted to sign requests with signerName %q", old.Spec.SignerName)
}

// attest lets only those publish a signer's trust bundle who may speak for the signer.
func (s signers) attest(ctx context.Context, r *Request) error {
	b, ok := r.Object.(*certificatesv1.ClusterTrustBundle)
	if !ok || !r.On(certificatesv1.GroupName, "clustertrustbundles", Create, Update) || b.Spec.SignerName == "" {
		return nil
	}
	if old, ok := r.Old.(*certificatesv1.ClusterTrustBundle); ok && equality.Semantic.DeepEqual(old.Spec, b.Spec) {
		return nil
	}
	if s.may(ctx, r, "attest", b.Spec.SignerName) {
		return nil
	}
	return r.Refuse("user not permitted to attest for signerName %q", b.Spec.SignerName)
}

// stampRequester writes into a certificate request who asks for it, whatever the request says.
func stampRequester(_ context.Context, r *Request) error {
	csr, ok := r.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || !r.On(certificatesv1.GroupName, "certificatesigningrequests", Create) {
		return nil
	}
	s := &csr.Spec
	s.Username, s.UID, s.Groups, s.Extra = r.User.Name, r.User.UID, slices.Clone(r.User.Groups), nil
	for key, values := range r.User.Extra {
		if s.Extra == nil {
			s.Extra = map[string]certificatesv1.ExtraValue{}
		}
		s.Extra[key] = slices.Clone(values)
	}
	return nil
}

// restrictSubject keeps client certificates from making anybody a member of system:masters.
func restrictSubject(_ context.Context, r *Request) error {
	csr, ok := r.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || !r.On(certificatesv1.GroupName, "certificatesigningrequests", Create) ||
		csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	req, err := ParseRequest(csr.Spec.Request)
	if err != nil {
		return r.Refuse("failed to parse CSR: %w", err)
	}
	if slices.Contains(req.Subject.Organization, auth.GroupMasters) {
		return r.Refuse("use of %s signer with %s group is not allowed", csr.Spec.SignerName, auth.GroupMasters)
	}
	return nil
}

// ParseRequest reads a certificate request in PEM.
func ParseRequest(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
