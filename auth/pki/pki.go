// Package pki is the cluster's own certificate authority: it makes and keeps the few keys that a cluster
// cannot lose (the CA, the front-proxy CA, the key that signs service account tokens) and issues everything
// else from them on demand: the serving certificate, client certificates, the certificates of nodes.
//
// Only what must survive a restart is stored, under upstream's file names, so that a directory made by
// kubeadm can be used as it is. Leaf certificates live in memory and are issued anew before they expire.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Lifetimes. A leaf is replaced when less than a third of its life is left.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	clockSkew     = 5 * time.Minute
)

// FrontProxyUser is the common name of the front-proxy client certificate.
const FrontProxyUser = "front-proxy-client"

// Config says what to make.
type Config struct {
	Dir       string   // where the keys are kept; "": in memory only
	Hosts     []string // further names and addresses of the API server
	ServiceIP net.IP   // of the Service default/kubernetes; nil: 10.96.0.1
	Domain    string   // "": cluster.local
	Now       func() time.Time
}

// A PKI holds the cluster's authorities. Its methods are safe for concurrent use.
type PKI struct {
	CA         *Authority // signs servers, clients and nodes
	FrontProxy *Authority // signs the client certificate of the aggregator
	dir        string     // "": in memory only
	now        func() time.Time
	mu         sync.Mutex // guards the fields below
	hosts      []string
	serving    *Rotating // nil: to be made for other hosts
	signing    crypto.Signer
	also       []crypto.PublicKey
	changed    chan struct{} // closed when anything of this is exchanged
}

// Open loads the keys in cfg.Dir and makes those that are missing. A file that is there but cannot be used is
// an error: replacing it would lock out everything that trusts it.
func Open(cfg Config) (*PKI, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	p := &PKI{CA: &Authority{}, FrontProxy: &Authority{}, dir: cfg.Dir, now: cfg.Now, hosts: serverHosts(cfg), changed: make(chan struct{})}
	d := &dir{path: cfg.Dir}
	k, err := d.load(cfg.Now())
	if err != nil {
		return nil, err
	}
	if err := d.flush(); err != nil {
		return nil, err
	}
	p.CA.now.Store(k.ca)
	p.FrontProxy.now.Store(k.front)
	p.signing, p.also = k.sa, k.also
	_, err = p.GetCertificate(nil)
	return p, err
}

// loadedKeys are the contents of a directory.
type loadedKeys struct {
	ca, front *signing
	sa        crypto.Signer
	also      []crypto.PublicKey
}

func (d *dir) load(now time.Time) (k loadedKeys, err error) {
	if k.ca, err = d.authority("ca", "kubernetes", now); err != nil {
		return k, err
	}
	if k.front, err = d.authority("front-proxy-ca", "front-proxy-ca", now); err != nil {
		return k, err
	}
	k.sa, k.also, err = d.signingKey("sa")
	return k, err
}

// ServiceAccount is the key that signs service account tokens, an *ecdsa.PrivateKey unless the directory held another, and the public
// halves of earlier ones that are still believed.
func (p *PKI) ServiceAccount() (crypto.Signer, []crypto.PublicKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signing, p.also
}

// serverHosts lists the names under which clients reach the API server.
func serverHosts(cfg Config) []string {
	domain, ip := cfg.Domain, cfg.ServiceIP
	if domain == "" {
		domain = "cluster.local"
	}
	if ip == nil {
		ip = net.IPv4(10, 96, 0, 1)
	}
	hosts := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc." + domain, "localhost", "127.0.0.1", "::1", ip.String()}
	return merge(hosts, cfg.Hosts)
}

func merge(hosts, more []string) []string {
	for _, h := range more {
		if h != "" && !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// GetCertificate returns the serving certificate; it fits tls.Config.GetCertificate. It issues a new one
// when the last third of the present one's life has begun.
func (p *PKI) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.serving == nil {
		r, err := p.CA.Rotating(Leaf{User: "kube-apiserver", Hosts: p.hosts, Server: true}, p.now)
		if err != nil {
			return nil, fmt.Errorf("issue the serving certificate: %w", err)
		}
		p.serving = r
	}
	return p.serving.Get()
}

// AddHosts makes the serving certificate valid for further names and addresses.
func (p *PKI) AddHosts(hosts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next := merge(slices.Clone(p.hosts), hosts); len(next) != len(p.hosts) {
		p.hosts, p.serving = next, nil
	}
}

// Hosts are the names and addresses that the serving certificate is good for.
func (p *PKI) Hosts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.hosts)
}

// Issue makes a client certificate for a user; ttl 0 means a year.
func (p *PKI) Issue(user string, groups []string, ttl time.Duration) (cert, key []byte, err error) {
	return p.CA.Issue(Leaf{User: user, Groups: groups, Client: true, Life: ttl}, p.now())
}

// FrontProxyClient makes the client certificate with which the aggregator speaks for users.
func (p *PKI) FrontProxyClient() (cert, key []byte, err error) {
	return p.FrontProxy.Issue(Leaf{User: FrontProxyUser, Client: true}, p.now())
}

// KubeletClient makes the client certificate with which the API server speaks to node agents. Agents know it by its name,
// kubelets ask the API server whether it may.
func (p *PKI) KubeletClient() (cert, key []byte, err error) {
	return p.Issue("kube-apiserver-kubelet-client", nil, 0)
}

// NodeServing makes a node agent's serving certificate for the given names and addresses.
func (p *PKI) NodeServing(node string, hosts ...string) (cert, key []byte, err error) {
	return p.CA.Issue(Leaf{User: "system:node:" + node, Groups: []string{"system:nodes"},
		Hosts: merge([]string{node}, hosts), Server: true}, p.now())
}

// Pool returns certificates of authorities as a pool to verify against.
func Pool(certs ...*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool
}

// sameKey tells whether the certificate belongs to the key.
func sameKey(cert *x509.Certificate, key crypto.Signer) bool {
	pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && pub.Equal(cert.PublicKey)
}

var _ crypto.Signer = (*ecdsa.PrivateKey)(nil)
