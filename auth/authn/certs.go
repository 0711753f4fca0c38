package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/token"
)

// Certs authenticates by TLS client certificate: the common name is the user, the organizations the groups.
// Verified chains are remembered, since a connection sends the same one with every request.
type Certs struct {
	Roots *x509.CertPool
	Now   func() time.Time // nil: time.Now

	known certCache
}

// Authenticate implements auth.Authenticator.
func (c *Certs) Authenticate(r *http.Request) (*auth.User, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	cert := r.TLS.PeerCertificates[0]
	sum := sha256.Sum256(cert.Raw)
	if err := c.known.verify(sum, r.TLS.PeerCertificates, c.Roots, clock(c.Now)); err != nil {
		return nil, false, fmt.Errorf("verify the client certificate of %q: %w", cert.Subject.CommonName, err)
	}
	if cert.Subject.CommonName == "" {
		return nil, false, nil
	}
	u := &auth.User{Name: cert.Subject.CommonName, Groups: cert.Subject.Organization, UID: uidOf(cert),
		Extra: map[string][]string{token.ExtraCredential: {"X509SHA256=" + hex.EncodeToString(sum[:])}}}
	return u, true, nil
}

// uidOID marks the subject's attribute that holds a user's uid.
var uidOID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

func uidOf(cert *x509.Certificate) string {
	for _, n := range cert.Subject.Names {
		if n.Type.Equal(uidOID) {
			s, _ := n.Value.(string)
			return s
		}
	}
	return ""
}

func clock(now func() time.Time) time.Time {
	if now == nil {
		return time.Now()
	}
	return now()
}

// maxCerts bounds the number of remembered certificates.
const maxCerts = 4096

// A certCache remembers until when certificates are known to be good.
type certCache struct {
	mu   sync.RWMutex
	good map[[sha256.Size]byte]time.Time
}

func (c *certCache) verify(sum [sha256.Size]byte, chain []*x509.Certificate, roots *x509.CertPool, now time.Time) error {
	c.mu.RLock()
	until, ok := c.good[sum]
	c.mu.RUnlock()
	if ok && now.Before(until) {
		return nil
	}
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, i := range chain[1:] {
		opts.Intermediates.AddCert(i)
	}
	chains, err := chain[0].Verify(opts)
	if err != nil {
		return err
	}
	until = chain[0].NotAfter
	for _, v := range chains[0] {
		if v.NotAfter.Before(until) {
			until = v.NotAfter
		}
	}
	c.put(sum, until)
	return nil
}

func (c *certCache) put(sum [sha256.Size]byte, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.good == nil {
		c.good = map[[sha256.Size]byte]time.Time{}
	}
	for old := range c.good {
		if len(c.good) < maxCerts {
			break
		}
		delete(c.good, old)
	}
	c.good[sum] = until
}

// Proxy authenticates by the word of the front proxy: a request that carries its client certificate names the
// user in headers. The headers are taken out of every request, since nobody else may send them.
type Proxy struct {
	Roots *x509.CertPool // of the front-proxy authority
	Names []string       // common names that may speak; empty: all
	Now   func() time.Time

	known certCache
}

const (
	remoteUser  = "X-Remote-User"
	remoteUID   = "X-Remote-Uid"
	remoteGroup = "X-Remote-Group"
	remoteExtra = "X-Remote-Extra-"
)

// Authenticate implements auth.Authenticator.
func (p *Proxy) Authenticate(r *http.Request) (*auth.User, bool, error) {
	u := remote(r.Header)
	if u.Name == "" || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	cert := r.TLS.PeerCertificates[0]
	if p.known.verify(sha256.Sum256(cert.Raw), r.TLS.PeerCertificates, p.Roots, clock(p.Now)) != nil {
		return nil, false, nil // somebody else's certificate: it may stand for itself
	}
	if len(p.Names) > 0 && !slices.Contains(p.Names, cert.Subject.CommonName) {
		return nil, false, fmt.Errorf("the front proxy %q is not one of %q", cert.Subject.CommonName, p.Names)
	}
	return u, true, nil
}

// remote reads and removes the front proxy's headers.
func remote(h http.Header) *auth.User {
	u := &auth.User{Name: h.Get(remoteUser), UID: h.Get(remoteUID), Groups: h.Values(remoteGroup)}
	for key, values := range h {
		name, ok := strings.CutPrefix(key, remoteExtra)
		if !ok {
			continue
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		name = unescape(name)
		u.Extra[name] = append(u.Extra[name], values...)
		delete(h, key)
	}
	h.Del(remoteUser)
	h.Del(remoteUID)
	h.Del(remoteGroup)
	return u
}

// unescape reads the key of an extra: in lower case, since header names have no case, and percent-encoded.
func unescape(key string) string {
	key = strings.ToLower(key)
	if plain, err := url.PathUnescape(key); err == nil {
		return plain
	}
	return key
}
