// Package stream answers the subresources that are connections: exec, attach, log and port-forward go on to the agent of a pod's
// node (the kubelet's API), proxy to a node, a pod or an endpoint of a service.
package stream

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
)

// Nodes finds the agents of nodes.
type Nodes interface {
	// Endpoint returns where the node's agent listens, or an error that tells the caller why not.
	Endpoint(ctx context.Context, node string) (Endpoint, error)
}

// An Endpoint is a node agent: the kubelet's API.
type Endpoint struct {
	URL       string            // https://10.0.0.1:10250
	Transport http.RoundTripper // trusts the agent and is trusted by it; an *http.Transport, as upgrades dial through it
}

// DialFunc opens a connection from the server to a pod or service address.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// Config holds what connections need. Ops and Kinds are required.
type Config struct {
	Ops   server.Operations
	Kinds *resource.Set
	Nodes Nodes    // nil: log, exec and the like answer 503
	Dial  DialFunc // reaches pods and services; nil: the host's network, global unicast addresses alone
	// Connect admits a connection before it is made (admission CONNECT); nil: all are welcome.
	Connect    func(ctx context.Context, r *server.Request, opts runtime.Object) error
	WriteStall time.Duration // how long a client may take no bytes
	Send       reply.Sender
}

// A Server connects clients: New makes one.
type Server interface {
	Serve(w http.ResponseWriter, r *http.Request, req *server.Request) error
	Close()
}

// A Handler connects clients. It is safe for concurrent use.
type Handler struct {
	cfg   Config
	proxy *http.Transport // to pods and services; their certificates are nobody's business but theirs, as with upstream
}

// New returns a handler. It starts nothing.
func New(cfg Config) Server {
	if cfg.Dial == nil {
		cfg.Dial = dialGlobal
	}
	return &Handler{cfg: cfg, proxy: &http.Transport{DialContext: cfg.Dial,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see Handler
		MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second}}
}

// Close lets go of connections that nobody uses.
func (h *Handler) Close() { h.proxy.CloseIdleConnections() }

// Serves says that the subresource of a kind is a connection.
func Serves(k *resource.Info, sub string) bool {
	if k.Custom || k.GVK.Group != "" {
		return false
	}
	switch sub {
	case "proxy":
		return true
	case "log", "exec", "attach", "portforward":
		return k.Plural == "pods"
	}
	return false
}

// Serve connects the client. The request names the object and the subresource; where the name of the URL holds more, a scheme or
// a port, it is the bare name afterwards. An error is still to be answered.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, req *server.Request) error {
	c := &connection{h: h, w: w, r: r, req: req}
	switch req.Sub {
	case "log":
		return c.log()
	case "exec", "attach":
		return c.exec()
	case "portforward":
		return c.portForward()
	}
	return c.proxy()
}

// connection is one request on its way to what answers it.
type connection struct {
	h   *Handler
	w   http.ResponseWriter
	r   *http.Request
	req *server.Request
}

// gr is the resource that the request names.
func (c *connection) gr() schema.GroupResource { return c.req.Kind.Info().GR() }
