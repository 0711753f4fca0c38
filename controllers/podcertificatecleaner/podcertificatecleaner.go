// Package podcertificatecleaner forgets the certificate requests of pods.
//
//	reads   PodCertificateRequest
//	writes  PodCertificateRequest: delete
//	rule    a request goes a quarter of an hour after it was made: the node has fetched its certificate, or asks anew
package podcertificatecleaner

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// keep is the time for which a request stays.
const keep = 15 * time.Minute

// Controller is the loop: wake on a request, and when its time is up.
var Controller = &loop.Controller[*certificatesv1.PodCertificateRequest]{
	Name:   "podcertificaterequest-cleaner",
	For:    kinds.PodCertificateRequests,
	Writes: []resource.Kind{kinds.PodCertificateRequests},
	Reconcile: func(ctx context.Context, c *loop.Ctx, r *certificatesv1.PodCertificateRequest) (time.Duration, error) {
		if left := r.CreationTimestamp.Add(keep).Sub(c.Now()); left > 0 {
			return left, nil
		}
		return 0, c.Delete(ctx, kinds.PodCertificateRequests, r)
	},
}
