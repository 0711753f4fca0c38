// Package csrsigning signs certificate requests that are approved.
//
//	reads   CertificateSigningRequest
//	writes  CertificateSigningRequest: status
//	rule    an approved request to a signer of Kubernetes' own has its certificate, or says why it can't
package csrsigning

import (
	"context"
	"crypto/x509"
	"time"

	certv1 "k8s.io/api/certificates/v1"
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

// life is how long a certificate is good whose request does not say.
const life = 365 * 24 * time.Hour

// Controller returns the loop that signs with ca: wake on a request.
func Controller(ca Signer) *loop.Controller[*certv1.CertificateSigningRequest] {
	return &loop.Controller[*certv1.CertificateSigningRequest]{
		Name:   "csr-signing",
		For:    kinds.CertificateSigningRequests,
		Writes: []resource.Kind{kinds.CertificateSigningRequests},
		Skip: func(r *certv1.CertificateSigningRequest) bool {
			return len(r.Status.Certificate) > 0 || csr.Condition(r, certv1.CertificateApproved) == nil || csr.Condition(r, certv1.CertificateFailed) != nil ||
				csr.Condition(r, certv1.CertificateDenied) != nil || checks(r.Spec.SignerName) == nil
		},
		Reconcile: func(ctx context.Context, c *loop.Ctx, r *certv1.CertificateSigningRequest) (time.Duration, error) {
			next := resource.Clone(r)
			cert, refusal, err := sign(ca, r, c.Now())
			switch {
			case err != nil:
				return 0, err
			case refusal != nil:
				now := metav1.NewTime(c.Now())
				next.Status.Conditions = append(next.Status.Conditions, certv1.CertificateSigningRequestCondition{Type: certv1.CertificateFailed,
					Status: corev1.ConditionTrue, Reason: "SignerValidationFailure", Message: refusal.Error(), LastUpdateTime: now, LastTransitionTime: now})
			default:
				next.Status.Certificate = cert
			}
			return 0, c.UpdateStatus(ctx, kinds.CertificateSigningRequests, next)
		},
	}
}

// checks returns what a signer demands of requests; nil for signers that are not ours.
func checks(signer string) func(*x509.CertificateRequest, []certv1.KeyUsage) error {
	switch signer {
	case certv1.KubeAPIServerClientSignerName:
		return func(_ *x509.CertificateRequest, u []certv1.KeyUsage) error {
			return csr.CheckUsages(u, certv1.UsageClientAuth)
		}
	case certv1.KubeAPIServerClientKubeletSignerName:
		return csr.CheckClient
	case certv1.KubeletServingSignerName:
		return csr.CheckServing
	case "kubernetes.io/legacy-unknown":
		return func(*x509.CertificateRequest, []certv1.KeyUsage) error { return nil }
	}
	return nil
}

// sign returns the certificate, or why the request is refused for good; err is a failure that may pass.
func sign(ca Signer, r *certv1.CertificateSigningRequest, now time.Time) (cert []byte, refusal, err error) {
	req, refusal := csr.Parse(r)
	if refusal != nil {
		return nil, refusal, nil
	}
	if refusal = checks(r.Spec.SignerName)(req, r.Spec.Usages); refusal != nil {
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

// usages turns the names of usages into those of certificates.
func usages(list []certv1.KeyUsage) (usage x509.KeyUsage, ext []x509.ExtKeyUsage) {
	plain := map[certv1.KeyUsage]x509.KeyUsage{certv1.UsageSigning: x509.KeyUsageDigitalSignature, certv1.UsageDigitalSignature: x509.KeyUsageDigitalSignature,
		certv1.UsageContentCommitment: x509.KeyUsageContentCommitment, certv1.UsageKeyEncipherment: x509.KeyUsageKeyEncipherment,
		certv1.UsageKeyAgreement: x509.KeyUsageKeyAgreement, certv1.UsageDataEncipherment: x509.KeyUsageDataEncipherment,
		certv1.UsageCertSign: x509.KeyUsageCertSign, certv1.UsageCRLSign: x509.KeyUsageCRLSign,
		certv1.UsageEncipherOnly: x509.KeyUsageEncipherOnly, certv1.UsageDecipherOnly: x509.KeyUsageDecipherOnly}
	extended := map[certv1.KeyUsage]x509.ExtKeyUsage{certv1.UsageAny: x509.ExtKeyUsageAny, certv1.UsageServerAuth: x509.ExtKeyUsageServerAuth,
		certv1.UsageClientAuth: x509.ExtKeyUsageClientAuth, certv1.UsageCodeSigning: x509.ExtKeyUsageCodeSigning,
		certv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection, certv1.UsageTimestamping: x509.ExtKeyUsageTimeStamping,
		certv1.UsageOCSPSigning: x509.ExtKeyUsageOCSPSigning}
	for _, u := range list {
		usage |= plain[u]
		if e, ok := extended[u]; ok {
			ext = append(ext, e)
		}
	}
	return usage, ext
}
