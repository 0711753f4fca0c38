package credential

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// patience is the time that one request is waited for. After it the next one is made: the old one may have been cleaned away.
const patience = 15 * time.Minute

// ask has a request signed, PEM in and out.
func (c *Credential) ask(ctx context.Context, asker client.Client, request []byte) ([]byte, error) {
	r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: c.cfg.Signer, Request: request, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, c.cfg.Usage}}}
	if c.cfg.Life > 0 {
		seconds := int32(c.cfg.Life / time.Second)
		r.Spec.ExpirationSeconds = &seconds
	}
	made, err := asker.Create(ctx, kinds.CertificateSigningRequests, r)
	if err != nil {
		return nil, fmt.Errorf("ask for a certificate: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		obj, err := asker.Get(ctx, kinds.CertificateSigningRequests, "", made.GetName())
		switch {
		case err == nil:
			if cert, err := answer(obj); cert != nil || err != nil {
				return cert, err
			}
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), ctx.Err() != nil:
			return nil, fmt.Errorf("read the request %s: %w", made.GetName(), err)
		} // else the server is away: it may be starting again
		// By the machine's own clock: what is waited for is the server.
		if err := sleep(ctx, pause); err != nil {
			return nil, fmt.Errorf("the request %s was not approved and signed: %w", made.GetName(), err)
		}
	}
}

// answer is the certificate, or why there will be none; neither as long as nobody has answered.
func answer(obj resource.Object) ([]byte, error) {
	r, ok := obj.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil, fmt.Errorf("the server answered with a %T", obj)
	}
	approved := false
	for _, cond := range r.Status.Conditions {
		switch {
		case cond.Status == corev1.ConditionFalse:
		case cond.Type == certificatesv1.CertificateDenied, cond.Type == certificatesv1.CertificateFailed:
			return nil, fmt.Errorf("the request %s: %s: %s: %s", r.Name, cond.Type, cond.Reason, cond.Message)
		case cond.Type == certificatesv1.CertificateApproved:
			approved = true
		}
	}
	if !approved || len(r.Status.Certificate) == 0 {
		return nil, nil
	}
	return r.Status.Certificate, nil
}
