// Package credential keeps the certificates of a node. Each lies in a file, and is asked for anew, by a
// CertificateSigningRequest, when 70 to 90 % of its life are over; connections that stand go on.
package credential

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/client"
)

// Config says what a certificate is for, and how to get it.
type Config struct {
	Signer string                   // certv1.KubeAPIServerClientKubeletSignerName or KubeletServingSignerName
	Usage  certificatesv1.KeyUsage  // certv1.UsageClientAuth or UsageServerAuth
	Want   *x509.CertificateRequest // names in the certificate; one that lacks some of them is not used
	File   string                   // where the certificate and its key are kept, PEM; "": nowhere
	Roots  func() *x509.CertPool    // who must have signed it
	Life   time.Duration            // what to ask for; 0: as long as the signer likes
	Log    *slog.Logger
	Failed func() // called when it could not be renewed; nil: nobody asks

	Now   func() time.Time                                 // nil: time.Now
	Sleep func(ctx context.Context, d time.Duration) error // nil: until the time has passed or ctx ends
}

// A Credential is one certificate and its successors. Its methods are safe for concurrent use.
type Credential struct {
	cfg Config

	mu      sync.Mutex
	asker   client.Client
	cert    *tls.Certificate // nil: none yet
	changed []func()
}

// errNone is the answer as long as there is no certificate.
var errNone = errors.New("the node has no certificate yet: its request waits to be approved (kubectl get csr)")

// New returns the certificate that the file holds, if it is still good, or an empty one.
func New(cfg Config) *Credential {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Sleep == nil {
		cfg.Sleep = sleep
	}
	c := &Credential{cfg: cfg}
	if cfg.File == "" {
		return c
	}
	switch pair, err := load(cfg.File); {
	case err != nil:
		cfg.Log.Warn("read the node's certificate: asking for a new one", "file", cfg.File, "err", err)
	case pair != nil:
		if err := c.Adopt(pair); err != nil {
			cfg.Log.Info("the node's certificate is of no use: asking for a new one", "file", cfg.File, "err", err)
		}
	}
	return c
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Adopt takes a certificate that came from elsewhere, unless it is not good for what this one is for.
func (c *Credential) Adopt(pair *tls.Certificate) error {
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return err
	}
	if err := c.check(leaf, pair.Certificate[1:]); err != nil {
		return err
	}
	pair.Leaf = leaf
	c.set(pair)
	return nil
}

// check says why a certificate is not good for what this one is for; more are those that link it to an authority.
func (c *Credential) check(leaf *x509.Certificate, more [][]byte) error {
	usage := x509.ExtKeyUsageClientAuth
	if c.cfg.Usage == certificatesv1.UsageServerAuth {
		usage = x509.ExtKeyUsageServerAuth
	}
	between := x509.NewCertPool()
	for _, der := range more {
		if link, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(link)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: c.cfg.Roots(), Intermediates: between, CurrentTime: c.cfg.Now(),
		KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
		return err
	}
	if want := c.cfg.Want.Subject.CommonName; leaf.Subject.CommonName != want {
		return fmt.Errorf("it is for %s, not for %s", leaf.Subject.CommonName, want)
	}
	for _, name := range c.cfg.Want.DNSNames {
		if err := leaf.VerifyHostname(name); err != nil {
			return err
		}
	}
	for _, ip := range c.cfg.Want.IPAddresses {
		if err := leaf.VerifyHostname(ip.String()); err != nil {
			return err
		}
	}
	return nil
}

func (c *Credential) set(pair *tls.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cert = pair
	for _, tell := range c.changed { // before anybody sees it: see Transport
		tell()
	}
}

// AskAs says who asks for the next certificate.
func (c *Credential) AskAs(asker client.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asker = asker
}

// OnChange has tell called whenever there is a new certificate. It must be quick and must not call the credential.
func (c *Credential) OnChange(tell func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = append(c.changed, tell)
}

// Get returns the certificate.
func (c *Credential) Get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cert == nil {
		return nil, errNone
	}
	return c.cert, nil
}

// Server is for tls.Config.GetCertificate.
func (c *Credential) Server(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Get() }

// Client is for tls.Config.GetClientCertificate.
func (c *Credential) Client(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.Get() }

// Run renews the certificate in time, until ctx ends.
func (c *Credential) Run(ctx context.Context) error {
	pause := time.Duration(0)
	for {
		if cert, err := c.Get(); err == nil {
			if err := c.untilDue(ctx, cert.Leaf, pause); err != nil {
				return err
			}
		} else if err := c.cfg.Sleep(ctx, pause); err != nil {
			return err
		}
		err := c.Renew(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			pause = 0
		default:
			if c.cfg.Failed != nil {
				c.cfg.Failed()
			}
			c.cfg.Log.Warn("renew the node's certificate", "signer", c.cfg.Signer, "err", err)
			pause = min(max(2*pause, time.Second), 5*time.Minute)
		}
	}
}

// clockEvery bounds each wait for a certificate to become due: the clock may jump, as when a machine without one of its own
// hears the time, and no timer notices.
const clockEvery = 10 * time.Minute

// untilDue returns when the next certificate is due, and no earlier than after the pause.
func (c *Credential) untilDue(ctx context.Context, leaf *x509.Certificate, pause time.Duration) error {
	for at := due(leaf); ; pause = 0 {
		left := max(at.Sub(c.cfg.Now()), pause)
		if left <= 0 {
			return nil
		}
		if err := c.cfg.Sleep(ctx, min(left, clockEvery)); err != nil {
			return err
		}
	}
}

// due is the time to ask for the next one: somewhere between 70 and 90 % of the life, so that not all nodes ask at once.
func due(leaf *x509.Certificate) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	return leaf.NotBefore.Add(time.Duration(float64(life) * (0.7 + 0.2*rand.Float64())))
}

// Renew asks for the next certificate, waits until it is there, and keeps it.
func (c *Credential) Renew(ctx context.Context) error {
	key, request, err := pki.Request(c.cfg.Want)
	if err != nil {
		return err
	}
	c.mu.Lock()
	asker := c.asker
	c.mu.Unlock()
	text, err := c.ask(ctx, asker, request)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(text, key)
	if err != nil {
		return fmt.Errorf("read the certificate that was signed: %w", err)
	}
	if err := c.check(pair.Leaf, pair.Certificate[1:]); err != nil {
		return fmt.Errorf("the certificate that was signed is of no use: %w", err)
	}
	if c.cfg.File != "" {
		if err := save(c.cfg.File, text, key); err != nil {
			return err
		}
	}
	c.set(&pair)
	c.cfg.Log.Info("the node has a new certificate", "signer", c.cfg.Signer, "until", pair.Leaf.NotAfter, "file", cmp.Or(c.cfg.File, "none"))
	return nil
}
