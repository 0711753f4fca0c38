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
	"sync/atomic"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/token"
)

// Certs authenticates by TLS client certificate: the common name is the user, the organizations the groups.
// Verified chains are remembered, since a connection sends the same one with every request.
type Certs struct {
	Roots func() *x509.CertPool // another pool when others are trusted: what was verified is forgotten then
	Now   func() time.Time      // nil: time.Now

	known certCache
}

// Authenticate implements auth.Authenticator.
func (c *Certs) Authenticate(r *http.Request) (*auth.User, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	cert := r.TLS.PeerCertificates[0]
	sum := sha256.Sum256(cert.Raw)
	k, err := c.known.verify(sum, r.TLS.PeerCertificates, c.Roots(), clock(c.Now))
	if err != nil {
		return nil, false, fmt.Errorf("verify the client certificate of %q: %w", cert.Subject.CommonName, err)
	}
	if cert.Subject.CommonName == "" {
		return nil, false, nil
	}
	return k.user, true, nil
}

func userOf(cert *x509.Certificate, sum [sha256.Size]byte) *auth.User {
	return &auth.User{Name: cert.Subject.CommonName, Groups: cert.Subject.Organization, UID: uidOf(cert),
		Extra: map[string][]string{token.ExtraCredential: {"X509SHA256=" + hex.EncodeToString(sum[:])}}}
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

// A certCache remembers which certificates are known to be good, and until when.
type certCache struct {
	mu    sync.RWMutex
	roots *x509.CertPool // by which they are
	good  map[[sha256.Size]byte]*known
}

// known is a certificate that was shown.
type known struct {
	leaf  *x509.Certificate
	user  *auth.User        // whom it names; shared, never changed
	root  *x509.Certificate // the authority that it was believed for
	until time.Time         // the first end in its chain
	used  atomic.Int64      // seconds since 1970
}

// A Shown is a client certificate that somebody showed.
type Shown struct {
	User  string    `json:"user"`
	Until time.Time `json:"until"` // end of the certificate's life
	From  time.Time `json:"from"`
	Used  time.Time `json:"used"`
	Root  []byte    `json:"root"` // DER of the authority that it was believed for
}

// Shown are the certificates that were shown since they could last be told apart; of very many only some.
func (c *Certs) Shown() (list []Shown) {
	c.known.mu.RLock()
	defer c.known.mu.RUnlock()
	for _, k := range c.known.good {
		list = append(list, Shown{User: k.leaf.Subject.CommonName, From: k.leaf.NotBefore, Until: k.leaf.NotAfter,
			Used: time.Unix(k.used.Load(), 0), Root: k.root.Raw})
	}
	return list
}

func (c *certCache) verify(sum [sha256.Size]byte, chain []*x509.Certificate, roots *x509.CertPool, now time.Time) (*known, error) {
	c.mu.RLock()
	k := c.good[sum]
	same := c.roots == roots
	c.mu.RUnlock()
	if k != nil && same && now.Before(k.until) {
		k.used.Store(now.Unix())
		return k, nil
	}
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, i := range chain[1:] {
		opts.Intermediates.AddCert(i)
	}
	chains, err := chain[0].Verify(opts)
	if err != nil {
		return nil, err
	}
	k = &known{leaf: chain[0], user: userOf(chain[0], sum), until: chain[0].NotAfter}
	for _, v := range chains[0] {
		if v.NotAfter.Before(k.until) {
			k.until = v.NotAfter
		}
	}
	k.root = shortest(chains)
	k.used.Store(now.Unix())
	c.put(sum, k, roots)
	return k, nil
}

// shortest is the root of the shortest chain: who is believed for the present authority as well as for the one before it needs the latter
// no more.
func shortest(chains [][]*x509.Certificate) *x509.Certificate {
	best := chains[0]
	for _, c := range chains {
		if len(c) < len(best) {
			best = c
		}
	}
	return best[len(best)-1]
}

func (c *certCache) put(sum [sha256.Size]byte, k *known, roots *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.good == nil || c.roots != roots {
		c.good, c.roots = map[[sha256.Size]byte]*known{}, roots
	}
	for old := range c.good {
		if len(c.good) < maxCerts {
			break
		}
		delete(c.good, old)
	}
	c.good[sum] = k
}

// Proxy authenticates by the word of the front proxy: a request that carries its client certificate names the
// user in headers. The headers are taken out of every request, since nobody else may send them.
type Proxy struct {
	Roots func() *x509.CertPool // of the front-proxy authority
	Names []string              // common names that may speak; empty: all
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
	if _, err := p.known.verify(sha256.Sum256(cert.Raw), r.TLS.PeerCertificates, p.Roots(), clock(p.Now)); err != nil {
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
