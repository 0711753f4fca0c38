package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kloop-dev/kloop/auth/pki"
)

// A trust holds the certificates of files: of authorities that are believed, and the one that the server shows, beside the cluster's own
// keys. Both change while it runs.
type trust struct {
	own     *pki.PKI
	serving atomic.Pointer[tls.Certificate] // nil: the cluster's own authority issues one
	clients atomic.Pointer[authorities]     // further authorities of client certificates; nil: none

	mu    sync.Mutex
	given *authorities   // what pool was made of
	base  *x509.CertPool // what pool was made of
	pool  *x509.CertPool
}

// authorities are certificates with their text.
type authorities struct {
	list []*x509.Certificate
	pem  []byte
}

// root are the certificates that clients must trust to believe the server, PEM.
func (t *trust) root() []byte {
	root := t.own.CA.PEM()
	if own := t.serving.Load(); own != nil {
		for _, der := range own.Certificate {
			root = append(slices.Clip(root), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
		}
	}
	return root
}

// trusted are the authorities of client certificates, PEM.
func (t *trust) trusted() []byte {
	if more := t.clients.Load(); more != nil {
		return append(slices.Clip(t.own.CA.PEM()), more.pem...)
	}
	return t.own.CA.PEM()
}

// callers are the authorities of client certificates: the same pool until they change.
func (t *trust) callers() *x509.CertPool {
	base, more := t.own.CA.Pool(), t.clients.Load()
	if more == nil {
		return base
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pool == nil || t.base != base || t.given != more {
		t.pool, t.base, t.given = pki.Pool(append(slices.Clip(more.list), t.own.CA.Trusted()...)...), base, more
	}
	return t.pool
}

// leaf is the caller's own serving certificate; nil: there is none.
func (t *trust) leaf() *x509.Certificate {
	own := t.serving.Load()
	if own == nil {
		return nil
	}
	return own.Leaf // tls.X509KeyPair has parsed it
}

// credentials reads the files that the configuration names beside the cluster's own keys, and follows them.
func (c *Cluster) credentials() error {
	c.cred.own = c.keys
	if err := c.follow(c.cfg.servingFiles(c.cred.serving.Store)); err != nil {
		return err
	}
	return c.follow(c.cfg.clientCAFile(c.cred.clients.Store))
}

// servingFiles loads the serving certificate of the caller's own and its key, if there is one.
func (c Config) servingFiles(use func(*tls.Certificate)) (*followed, error) {
	if c.ServingCert == "" {
		return nil, nil
	}
	return load("serving certificate", func(data [][]byte) error {
		pair, err := tls.X509KeyPair(data[0], data[1])
		if err == nil {
			use(&pair)
		}
		return err
	}, c.ServingCert, c.ServingKey)
}

// clientCAFile loads the further authority of client certificates, if there is one.
func (c Config) clientCAFile(use func(*authorities)) (*followed, error) {
	if c.ClientCA == "" {
		return nil, nil
	}
	return load("authority of client certificates", func(data [][]byte) error {
		certs, err := pki.ParseCerts(data[0])
		if err == nil {
			use(&authorities{certs, data[0]})
		}
		return err
	}, c.ClientCA)
}

// useTokenKeys has the signer use the keys of service account tokens that there are now.
func (d *keyDesk) useTokenKeys() error {
	t, err := d.c.tokenConfig()
	if err != nil {
		return err
	}
	if err := d.signer.Use(t.Key, t.Also); err != nil {
		return fmt.Errorf("use the keys of service account tokens: %w", err)
	}
	return nil
}
