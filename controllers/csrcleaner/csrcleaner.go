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
		at := until(r)
		if left := at.Sub(c.Now()); left > 0 || at.IsZero() {
			return max(0, left), nil
		}
		return 0, c.Delete(ctx, kinds.CertificateSigningRequests, r)
	},
}

// until returns when a request has told all that it has to; zero: never. One that somebody began to decide stays until it is decided.
func until(r *certificatesv1.CertificateSigningRequest) (at time.Time) {
	by := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if len(r.Status.Conditions) == 0 {
		by(r.CreationTimestamp.Add(pendingFor))
	}
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			by(c.LastUpdateTime.Add(decidedFor))
		case certificatesv1.CertificateApproved:
			if len(r.Status.Certificate) == 0 {
				by(c.LastUpdateTime.Add(pendingFor))
				continue
			}
			by(c.LastUpdateTime.Add(decidedFor))
			if block, _ := pem.Decode(r.Status.Certificate); block != nil {
				if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
					by(cert.NotAfter)
				}
			}
		}
	}
	return at
}
