package pki

import (
	"crypto/tls"
	"sync"
	"time"
)

// A Rotating is a certificate that is issued anew when the last third of its life has begun. Connections that it is
// shown to go on; new ones see the new one. Its methods are safe for concurrent use and fit tls.Config.
type Rotating struct {
	issue   func(now time.Time) (*tls.Certificate, error)
	now     func() time.Time
	changed func() bool // says that the issuer is another one; nil: it never is

	mu      sync.Mutex
	cert    *tls.Certificate
	renewAt time.Time
}

// Rotating returns a certificate of the authority that stays good as long as the authority does, and is another's when that is exchanged.
func (a *Authority) Rotating(l Leaf, now func() time.Time) (*Rotating, error) {
	if now == nil {
		now = time.Now
	}
	var from *signing // guarded by the mutex of what is made here
	r := &Rotating{now: now, changed: func() bool { return a.now.Load() != from }}
	r.issue = func(now time.Time) (*tls.Certificate, error) {
		s := a.now.Load()
		pair, err := s.pair(l, now)
		if err == nil {
			from = s
		}
		return pair, err
	}
	_, err := r.Get()
	return r, err
}

// Get returns the certificate. When a new one is due and can't be issued, the present one is returned as long as it is good.
func (r *Rotating) Get() (*tls.Certificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now().Round(0) // the wall's time alone: when it jumps, the running clock does not
	same := r.changed == nil || !r.changed()
	if same && r.cert != nil && now.Before(r.renewAt) && (r.cert.Leaf == nil || !now.Before(r.cert.Leaf.NotBefore)) {
		return r.cert, nil
	}
	fresh, err := r.issue(now)
	if err != nil {
		if r.cert != nil && r.cert.Leaf != nil && now.Before(r.cert.Leaf.NotAfter) && !now.Before(r.cert.Leaf.NotBefore) {
			return r.cert, nil
		}
		return nil, err
	}
	r.cert, r.renewAt = fresh, now.Add(time.Hour)
	if fresh.Leaf != nil {
		r.renewAt = now.Add(fresh.Leaf.NotAfter.Sub(now) / 3 * 2)
	}
	return r.cert, nil
}

// Server is for tls.Config.GetCertificate.
func (r *Rotating) Server(*tls.ClientHelloInfo) (*tls.Certificate, error) { return r.Get() }

// Client is for tls.Config.GetClientCertificate.
func (r *Rotating) Client(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return r.Get() }
