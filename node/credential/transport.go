package credential

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// A Transport shows a certificate that changes. A server that was shown one believes it as long as the connection
// stands and the certificate is good; so requests go over new connections as soon as there is a new certificate, and
// what runs on old ones, watches above all, is left in peace until it ends.
type Transport struct {
	cert  *Credential
	roots func() *x509.CertPool
	now   atomic.Pointer[http.Transport]
}

// NewTransport returns a transport to the server that the roots vouch for.
func NewTransport(cert *Credential, roots func() *x509.CertPool) *Transport {
	t := &Transport{cert: cert, roots: roots}
	t.now.Store(t.fresh())
	cert.OnChange(t.Renew)
	return t
}

// Renew has new requests go over new connections: to a server that the present roots vouch for.
func (t *Transport) Renew() { t.now.Swap(t.fresh()).CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.now.Load().RoundTrip(r)
}

func (t *Transport) fresh() *http.Transport {
	return &http.Transport{Proxy: http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: t.roots(), GetClientCertificate: t.cert.Client},
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 25, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}}
}
