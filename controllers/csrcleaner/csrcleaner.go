// Package csrcleaner forgets certificate requests that are done with.
//
//	reads   CertificateSigningRequest
//	writes  CertificateSigningRequest: delete
//	rule    a request goes an hour after it was decided, a day after it was made if nobody decided, and when its
//	        certificate has expired
package csrcleaner

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kloop-dev/kloop/controllers/internal/csr"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const (
	decidedFor = time.Hour
	pendingFor = 24 * time.Hour
)

// Controller is the loop: wake on a request, and when its time is up.
var Controller = &loop.Controller[*certificatesv1.CertificateSigningRequest]{
	Name:   "csr-cleaner",
	For:    kinds.CertificateSigningRequests,
	Writes: []resource.Kind{kinds.CertificateSigningRequests},
	Reconcile: func(ctx context.Context, c *loop.Ctx, r *certificatesv1.CertificateSigningRequest) (time.Duration, error) {
		if left := until(r).Sub(c.Now()); left > 0 {
			return left, nil
		}
		return 0, c.Delete(ctx, kinds.CertificateSigningRequests, r)
	},
}

// until is the time for which the request is kept.
func until(r *certificatesv1.CertificateSigningRequest) time.Time {
	at := r.CreationTimestamp.Add(pendingFor)
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateDenied, certificatesv1.CertificateFailed} {
		if cond := csr.Condition(r, t); cond != nil {
			at = cond.LastUpdateTime.Add(decidedFor)
		}
	}
	if len(r.Status.Certificate) == 0 {
		return at
	}
	if cond := csr.Condition(r, certificatesv1.CertificateApproved); cond != nil {
		at = cond.LastUpdateTime.Add(decidedFor)
	}
	if block, _ := pem.Decode(r.Status.Certificate); block != nil {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && cert.NotAfter.Before(at) {
			return cert.NotAfter
		}
	}
	return at
}
