// Package webhook calls the HTTPS servers that extend the API server: those of admission and of the conversion of
// custom resources. It knows how to reach and trust one, sends a JSON document and returns the answer; what the
// documents say is the caller's business. The servers of reviews and of audit events, which the configuration names by
// kubeconfigs, are a Server.
//
// Connections are HTTP/1.1, so that concurrent calls spread over a service's endpoints, and are reused. Everything
// is bounded: the time by the caller's context, the answer by bytes, the clients that are remembered by number.
package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// A Target says where a webhook listens and whom to trust there. Either URL or Service is set.
type Target struct {
	URL      string
	Service  *Service
	CABundle []byte // PEM; empty: the system's roots
}

// A Service is a reference to a Service of the cluster.
type Service struct {
	Namespace, Name string
	Port            int32 // 0: 443
	Path            string
}

// host is the name that the server's certificate must be for.
func (s *Service) host() string { return s.Name + "." + s.Namespace + ".svc" }

// A Caller makes clients of webhooks and remembers them. Its zero value reaches URLs only. Safe for concurrent use.
type Caller struct {
	// Resolve returns the addresses (host:port) that stand behind a port of a service, in any order; the errors
	// are sentences for users. nil: services can't be reached.
	Resolve func(namespace, name string, port int32) ([]string, error)
	// Login makes the connections of a client say who calls, by the name and port of the server; nil: nobody says so.
	Login func(host string, port int, t *http.Transport) (http.RoundTripper, error)
	// Dial opens a connection; nil: the host's network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu      sync.Mutex
	clients map[string]*Client
}

const (
	maxClients  = 512 // remembered; beyond that any is forgotten
	dialTries   = 3   // endpoints of a service that are tried for one connection
	dialTimeout = 10 * time.Second
	idleTimeout = 90 * time.Second
	idlePerHost = 25
)

// A Client calls one webhook. Safe for concurrent use.
type Client struct {
	url  url.URL
	http *http.Client
}

// Client returns the client of a target, the same for the same target. The error says what is wrong with the target.
func (c *Caller) Client(t Target) (*Client, error) {
	key := t.key()
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.clients[key]; known != nil {
		return known, nil
	}
	made, err := c.connect(t)
	if err != nil {
		return nil, err
	}
	if c.clients == nil {
		c.clients = map[string]*Client{}
	}
	for other, old := range c.clients {
		if len(c.clients) < maxClients {
			break
		}
		old.http.CloseIdleConnections()
		delete(c.clients, other)
	}
	c.clients[key] = made
	return made, nil
}

func (t Target) key() string {
	sum := sha256.Sum256(t.CABundle)
	if s := t.Service; s != nil {
		return fmt.Sprintf("%s/%s:%d%s %x", s.Namespace, s.Name, s.Port, s.Path, sum)
	}
	return fmt.Sprintf("%s %x", t.URL, sum)
}

// stay keeps a client at the host that it was sent to: an answer that tells it to go elsewhere is a failure. On the same host it
// follows, since a router there may clean its paths by a redirect, as that of Go does with //.
//
// Unlike Kubernetes, redirects of webhooks to other hosts are not followed: a webhook would choose which of the addresses that the
// server can reach is asked, and who reads the review (CVE-2020-8561).
func stay(to *http.Request, via []*http.Request) error {
	if from := via[0].URL; to.URL.Scheme == from.Scheme && to.URL.Host == from.Host && len(via) < maxRedirects {
		return nil
	}
	return http.ErrUseLastResponse
}

const maxRedirects = 10

func (c *Caller) connect(t Target) (*Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if len(t.CABundle) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(t.CABundle) {
			return nil, errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	rt := &http.Transport{TLSClientConfig: conf, TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: idlePerHost,
		IdleConnTimeout: idleTimeout, DialContext: c.dial}
	out := &Client{http: &http.Client{Transport: rt, CheckRedirect: stay}}
	if s := t.Service; s != nil {
		port := s.Port
		if port == 0 {
			port = 443
		}
		conf.ServerName = s.host()
		out.url = url.URL{Scheme: "https", Host: net.JoinHostPort(s.host(), strconv.Itoa(int(port))), Path: s.Path}
		rt.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return c.DialService(ctx, network, s.Namespace, s.Name, port)
		}
		return out, c.login(out, s.host(), int(port), rt)
	}
	u, err := url.Parse(t.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("unparsable webhook URL: %w", err)
	case t.URL == "":
		return nil, errors.New("webhook must specify either a service or a URL")
	case u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("webhook URL %q must be https with a host", t.URL)
	}
	out.url = *u
	rt.Proxy = http.ProxyFromEnvironment
	port := 443
	if text := u.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil {
			return nil, fmt.Errorf("unparsable webhook URL: %w", err)
		}
	}
	return out, c.login(out, u.Hostname(), port, rt)
}

func (c *Caller) login(out *Client, host string, port int, rt *http.Transport) (err error) {
	if c.Login != nil {
		out.http.Transport, err = c.Login(host, port, rt)
	}
	return err
}

func (c *Caller) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if c.Dial != nil {
		return c.Dial(ctx, network, addr)
	}
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, addr)
}

// DialService connects to one of the endpoints of a service, the first of a few that answers.
func (c *Caller) DialService(ctx context.Context, network, ns, name string, port int32) (net.Conn, error) {
	if c.Resolve == nil {
		return nil, fmt.Errorf("service %q: this server does not reach services", name)
	}
	list, err := c.Resolve(ns, name, port)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no endpoints available for service %q", name)
	}
	first := rand.IntN(len(list))
	for i := range min(len(list), dialTries) {
		var conn net.Conn
		if conn, err = c.dial(ctx, network, list[(first+i)%len(list)]); err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}
