// Package httpapi puts the wire in front of server.Operations: URLs, media types, tables, watch streams,
// discovery, health and the streams to node agents. It decides nothing about objects; whatever is stored,
// defaulted or refused is the front door's business.
//
// A request passes, in this order: panic recovery, request info, limits, authentication, impersonation,
// authorization, dispatch. Every failure is a metav1.Status in the media type the client asked for.
package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/audit"
	"github.com/kloop-dev/kloop/server/fair"
	"github.com/kloop-dev/kloop/trail"
)

// Config holds what the wire needs. Ops, Kinds, Authn and Authz are required; the zero value of the rest is usable.
type Config struct {
	Ops   server.Operations
	Kinds *resource.Set
	Authn auth.Authenticator
	Authz auth.Authorizer

	// Virtual names who answers for a virtual kind in place of Ops; nil, and a nil answer, mean Ops.
	Virtual func(resource.Kind) server.Operations

	NoAnonymous bool          // refuse requests without credentials instead of treating them as system:anonymous
	Version     *version.Info // nil: DefaultVersion
	OpenAPI     Docs          // nil: the documents are not served
	Issuer      Issuer        // nil: no service account issuer discovery
	Nodes       Nodes         // nil: log, exec and the like answer 503
	Dial        DialFunc      // reaches pods and services for the proxy subresources; nil: the host's network
	Groups      GroupSource   // aggregated groups that other servers answer; nil: none
	Delegate    http.Handler  // gets requests that Groups claims; nil: 503
	// Trusts says whether a user may tell that a write was made for this (trail.Header); nil: nobody may.
	Trusts func(ctx context.Context, u *auth.User, c *trail.Cause) bool
	// Witness sees what clients do; nil: nobody does.
	Witness Witness
	// Connect admits a connection to a subresource before it is made (admission CONNECT); nil: all are welcome.
	Connect func(ctx context.Context, r *server.Request, opts runtime.Object) error

	Audit *audit.Auditor // records requests, streams included; nil: nobody does

	Address  string                  // host:port told to clients in /api
	Live     []Check                 // /livez; Ready includes them
	Ready    []Check                 // /readyz and /healthz
	Traffic  []Check                 // /readyz alone
	Flags    map[string]string       // with what the program was started, for /flagz: no secrets
	Registry *prometheus.Registry    // further metrics to expose; nil: an own one
	Extra    map[string]http.Handler // further authorized paths, exact or ending in "/" for everything below

	Fair  *fair.Fair                                           // shares the server among callers; nil: 600 seats for all of them together
	Count func(gvr schema.GroupVersionResource, ns string) int // about how many objects a list shows; nil: few

	MaxBody    int64         // bytes; 0: 3 MiB
	Timeout    time.Duration // of requests that are not streams; 0: 60 s
	WriteStall time.Duration // how long a stream's client may take no bytes; 0: 30 s
}

// A Check is one named health check. Run returns nil when all is well.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
}

// Docs makes the OpenAPI documents; package openapi implements it. Documents are shared and must not be changed.
type Docs interface {
	// Index returns the hash of each v3 document by its path: api/v1, apis/apps/v1.
	Index() map[string]string
	// V3 returns the document at a path of the index as JSON, and its hash; V3Proto the same as protobuf.
	V3(path string) (doc []byte, hash string, err error)
	V3Proto(path string) (doc []byte, hash string, err error)
	// V2JSON returns the document of everything; V2Proto the same as protobuf.
	V2JSON() (doc []byte, hash string, err error)
	V2Proto() (doc []byte, hash string, err error)
}

// Issuer serves the public side of service account tokens.
type Issuer interface {
	// Configuration is the OpenID discovery document.
	Configuration() ([]byte, error)
	// Keys is the JSON web key set.
	Keys() ([]byte, error)
}

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

// GroupSource names the API groups that other servers answer (aggregation).
type GroupSource interface {
	// Claims says that the group version is answered by another server.
	Claims(gv schema.GroupVersion) bool
	// Groups returns the claimed groups for discovery.
	Groups() []Group
}

func (c *Config) fill() {
	if c.Version == nil {
		c.Version = DefaultVersion(c.Kinds.Features())
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	if c.Fair == nil {
		c.Fair = fair.New(fair.Config{})
	}
	c.MaxBody = orInt(c.MaxBody, 3<<20)
	c.Timeout = orInt(c.Timeout, time.Minute)
	c.WriteStall = orInt(c.WriteStall, 30*time.Second)
}

func orInt[T ~int | ~int64](v, or T) T {
	if v == 0 {
		return or
	}
	return v
}
