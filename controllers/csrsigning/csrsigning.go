// Package csrsigning signs certificate requests that are approved.
//
//	reads   CertificateSigningRequest
//	writes  CertificateSigningRequest: status
//	rule    an approved request to a signer of Kubernetes' own has its certificate, or says why it can't
package csrsigning

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/controllers/internal/csr"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A Signer is the cluster's authority.
type Signer interface {
	// SignRequest signs a request for life at most and returns the certificate in PEM.
	SignRequest(req *x509.CertificateRequest, usage x509.KeyUsage, ext []x509.ExtKeyUsage, life time.Duration, now time.Time) ([]byte, error)
}

// life is the time for which a certificate is good whose request does not say.
const life = 365 * 24 * time.Hour

// Controller returns the loop that signs with ca: wake on a request.
func Controller(ca Signer) *loop.Controller[*certificatesv1.CertificateSigningRequest] {
	return &loop.Controller[*certificatesv1.CertificateSigningRequest]{
		Name:   "csr-signing",
		For:    kinds.CertificateSigningRequests,
		Writes: []resource.Kind{kinds.CertificateSigningRequests},
		Skip: func(r *certificatesv1.CertificateSigningRequest) bool {
			return len(r.Status.Certificate) > 0 || csr.Condition(r, certificatesv1.CertificateApproved) == nil ||
				csr.Condition(r, certificatesv1.CertificateFailed) != nil ||
				csr.Condition(r, certificatesv1.CertificateDenied) != nil || checks(r.Spec.SignerName) == nil
		},
		Reconcile: func(ctx context.Context, c *loop.Ctx, r *certificatesv1.CertificateSigningRequest) (time.Duration, error) {
			next := resource.Clone(r)
			cert, refusal, err := sign(ca, r, c.Now())
			switch {
			case err != nil:
				return 0, err
			case refusal != nil:
				now := metav1.NewTime(c.Now())
				next.Status.Conditions = append(next.Status.Conditions,
					certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateFailed,
						Status: corev1.ConditionTrue, Reason: "SignerValidationFailure", Message: refusal.Error(), LastUpdateTime: now,
						LastTransitionTime: now})
			default:
				next.Status.Certificate = cert
			}
			return 0, c.UpdateStatus(ctx, kinds.CertificateSigningRequests, next)
		},
	}
}

// checks returns what a signer demands of requests; nil for signers that are not ours.
func checks(signer string) func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error {
	switch signer {
	case certificatesv1.KubeAPIServerClientSignerName:
		return func(_ *x509.CertificateRequest, u []certificatesv1.KeyUsage) error {
			return csr.CheckUsages(u)
		}
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return csr.CheckClient
	case certificatesv1.KubeletServingSignerName:
		return csr.CheckServing
	case "kubernetes.io/legacy-unknown":
		return func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil }
	}
	return nil
}

// sign returns the certificate, or why the request is refused for good; err is a failure that may pass.
func sign(ca Signer, r *certificatesv1.CertificateSigningRequest, now time.Time) (cert []byte, refusal, err error) {
	req, refusal := csr.Parse(r)
	if refusal != nil {
		return nil, refusal, nil
	}
	if refusal = checks(r.Spec.SignerName)(req, r.Spec.Usages); refusal == nil {
		refusal = reserved(req)
	}
	if refusal != nil {
		return nil, refusal, nil
	}
	usage, ext := usages(r.Spec.Usages)
	span := life
	if s := r.Spec.ExpirationSeconds; s != nil {
		span = min(span, time.Duration(*s)*time.Second)
	}
	cert, err = ca.SignRequest(req, usage, ext, span, now)
	return cert, nil, err
}

// reserved refuses the names by which servers know each other, and by which node agents know the server.
//
// Unlike Kubernetes, where all but system:masters may be asked for, nobody gets them by a request, whoever approved it: only servers,
// who have the authority's key, make certificates for them. A user who may approve requests must not become one of them.
func reserved(req *x509.CertificateRequest) error {
	for _, name := range append([]string{req.Subject.CommonName}, req.Subject.Organization...) {
		if strings.HasPrefix(name, "system:kloop:") || name == "kube-apiserver-kubelet-client" || name == "system:masters" {
			return fmt.Errorf("%q is reserved: no certificate request gets it", name)
		}
	}
	return nil
}

// usages turns the names of usages into those of certificates.
func usages(list []certificatesv1.KeyUsage) (usage x509.KeyUsage, ext []x509.ExtKeyUsage) {
	plain := map[certificatesv1.KeyUsage]x509.KeyUsage{certificatesv1.UsageSigning: x509.KeyUsageDigitalSignature,
		certificatesv1.UsageDigitalSignature:  x509.KeyUsageDigitalSignature,
		certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment, certificatesv1.UsageKeyEncipherment: x509.KeyUsageKeyEncipherment,
		certificatesv1.UsageKeyAgreement: x509.KeyUsageKeyAgreement, certificatesv1.UsageDataEncipherment: x509.KeyUsageDataEncipherment,
		certificatesv1.UsageCertSign: x509.KeyUsageCertSign, certificatesv1.UsageCRLSign: x509.KeyUsageCRLSign,
		certificatesv1.UsageEncipherOnly: x509.KeyUsageEncipherOnly, certificatesv1.UsageDecipherOnly: x509.KeyUsageDecipherOnly}
	extended := map[certificatesv1.KeyUsage]x509.ExtKeyUsage{certificatesv1.UsageAny: x509.ExtKeyUsageAny,
		certificatesv1.UsageServerAuth: x509.ExtKeyUsageServerAuth,
		certificatesv1.UsageClientAuth: x509.ExtKeyUsageClientAuth, certificatesv1.UsageCodeSigning: x509.ExtKeyUsageCodeSigning,
		certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection, certificatesv1.UsageTimestamping: x509.ExtKeyUsageTimeStamping,
		certificatesv1.UsageOCSPSigning: x509.ExtKeyUsageOCSPSigning}
	for _, u := range list {
		usage |= plain[u]
		if e, ok := extended[u]; ok {
			ext = append(ext, e)
		}
	}
	return usage, ext
}
