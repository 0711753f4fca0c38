package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync/atomic"
	"time"
)

// An Authority is a certificate that signs others, and those that it is about to follow. It may be exchanged while it is in use: what
// is asked of it is answered by the one of that moment. Its methods are safe for concurrent use.
type Authority struct{ now atomic.Pointer[signing] }

// signing is an authority at one time. It never changes.
type signing struct {
	cert    *x509.Certificate
	key     crypto.Signer
	trusted []*x509.Certificate // cert, and others that are still believed
	pem     []byte              // of trusted
	pool    *x509.CertPool      // of trusted
	cross   [][]byte            // DER: cert's key as earlier authorities vouch for it, the latest first
	since   time.Time           // when this process began to believe these
}

func newSigning(cert *x509.Certificate, key crypto.Signer, trusted []*x509.Certificate, pem []byte, cross [][]byte) *signing {
	return &signing{cert: cert, key: key, trusted: trusted, pem: pem, pool: Pool(trusted...), cross: cross, since: time.Now()}
}

// Cert is the certificate that signs.
func (a *Authority) Cert() *x509.Certificate { return a.now.Load().cert }

// Key is the key of Cert.
func (a *Authority) Key() crypto.Signer { return a.now.Load().key }

// PEM holds all that are to be trusted: Cert, and an authority before it as long as both are.
func (a *Authority) PEM() []byte { return a.now.Load().pem }

// Trusted are the certificates of PEM.
func (a *Authority) Trusted() []*x509.Certificate { return a.now.Load().trusted }

// Pool returns the certificates of PEM as a pool to verify against: the same one until that changes.
func (a *Authority) Pool() *x509.CertPool { return a.now.Load().pool }

// Age is for how long this process has believed what Pool holds now. A step of the clock does not change it.
func (a *Authority) Age() time.Duration { return time.Since(a.now.Load().since) }

// A Leaf describes a certificate to issue.
type Leaf struct {
	User   string        // common name
	Groups []string      // organizations
	Hosts  []string      // names and addresses
	Client bool          // good for clients
	Server bool          // good for servers
	Life   time.Duration // 0: a year; never beyond the authority's own
}

// Issue makes a key and its certificate, both as PEM.
func (a *Authority) Issue(l Leaf, now time.Time) (cert, key []byte, err error) {
	k, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	s := a.now.Load()
	der, err := s.sign(l.template(now), k.Public(), now)
	if err != nil {
		return nil, nil, fmt.Errorf("issue a certificate for %q: %w", l.User, err)
	}
	key, err = keyPEM(k)
	return s.chain(der), key, err
}

// chain is a certificate as PEM, with what those need who trust an earlier authority alone.
func (s *signing) chain(der []byte) []byte {
	text := certPEM(der)
	for _, c := range s.cross {
		text = append(text, certPEM(c)...)
	}
	return text
}

func (s *signing) pair(l Leaf, now time.Time) (*tls.Certificate, error) {
	k, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := s.sign(l.template(now), k.Public(), now)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: append([][]byte{der}, s.cross...), PrivateKey: k, Leaf: leaf}, err
}

// SignRequest signs a certificate request with the given usages, for life at most; the request's own
// signature must be good. The answer is PEM.
func (a *Authority) SignRequest(req *x509.CertificateRequest, usage x509.KeyUsage, ext []x509.ExtKeyUsage,
	life time.Duration, now time.Time) ([]byte, error) {
	if err := req.CheckSignature(); err != nil {
		return nil, fmt.Errorf("check the signature of the certificate request: %w", err)
	}
	t := &x509.Certificate{Subject: req.Subject, DNSNames: req.DNSNames, IPAddresses: req.IPAddresses,
		EmailAddresses: req.EmailAddresses, URIs: req.URIs, ExtraExtensions: nil, BasicConstraintsValid: true,
		KeyUsage: usage, ExtKeyUsage: ext, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(life)}
	s := a.now.Load()
	der, err := s.sign(t, req.PublicKey, now)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate request of %q: %w", req.Subject.CommonName, err)
	}
	return s.chain(der), nil
}

func (s *signing) sign(t *x509.Certificate, pub crypto.PublicKey, now time.Time) ([]byte, error) {
	if !now.Before(s.cert.NotAfter) {
		return nil, fmt.Errorf("the authority %q expired at %s", s.cert.Subject.CommonName, s.cert.NotAfter)
	}
	if t.NotAfter.After(s.cert.NotAfter) {
		t.NotAfter = s.cert.NotAfter
	}
	var err error
	if t.SerialNumber, err = serial(); err != nil {
		return nil, err
	}
	return x509.CreateCertificate(rand.Reader, t, s.cert, pub, s.key)
}

func (l Leaf) template(now time.Time) *x509.Certificate {
	life := l.Life
	if life == 0 {
		life = leafLife
	}
	t := &x509.Certificate{Subject: pkix.Name{CommonName: l.User, Organization: l.Groups},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(life), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment}
	if l.Client {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if l.Server {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range l.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return t
}

// newAuthority makes a self-signed certificate for the key.
func newAuthority(name string, key crypto.Signer, now time.Time) (*signing, error) {
	n, err := serial()
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{SerialNumber: n, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLife), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the authority %q: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return newSigning(cert, key, []*x509.Certificate{cert}, certPEM(der), nil), nil
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func serial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 63))
	if err != nil {
		return nil, err
	}
	return n.Add(n, big.NewInt(1)), nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(key crypto.Signer) ([]byte, error) {
	if k, ok := key.(*ecdsa.PrivateKey); ok {
		der, err := x509.MarshalECPrivateKey(k)
		return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// ParseKey reads the first private key of a PEM text: EC, RSA or PKCS #8.
func ParseKey(text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch block.Type {
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		if s, ok := key.(crypto.Signer); ok {
			return s, nil
		}
		return nil, fmt.Errorf("a key of type %T cannot sign", key)
	}
	return nil, errors.New("no private key in PEM form")
}

// ParseCerts reads all certificates of a PEM text; none is an error.
func ParseCerts(text []byte) (certs []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate in PEM form")
	}
	return certs, nil
}

// Request makes a key and a request to sign it with the names that want has; both are PEM.
func Request(want *x509.CertificateRequest) (key, request []byte, err error) {
	k, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, want, k)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate request for %q: %w", want.Subject.CommonName, err)
	}
	key, err = keyPEM(k)
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), err
}
