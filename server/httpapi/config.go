// Package httpapi puts the wire in front of server.Operations: URLs, media types, tables, watch streams,
// discovery, health and the streams to node agents. It decides nothing about objects; whatever is stored,
// defaulted or refused is the front door's business.
//
// A request passes, in this order: panic recovery, request info, limits, authentication, impersonation,
// authorization, dispatch. Every failure is a metav1.Status in the media type the client asked for.
package httpapi

import (
	"context"
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
	"github.com/kloop-dev/kloop/server/httpapi/discovery"
	"github.com/kloop-dev/kloop/server/httpapi/health"
	"github.com/kloop-dev/kloop/server/httpapi/stream"
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

	NoAnonymous bool           // refuse requests without credentials instead of treating them as system:anonymous
	Version     *version.Info  // nil: DefaultVersion
	OpenAPI     discovery.Docs // nil: the documents are not served
	Issuer      Issuer         // nil: no service account issuer discovery
	// Evictions makes the body of an eviction: workload.Eviction; nil: pods are not evicted.
	Evictions func() resource.Object
	// Streams makes what connects clients with nodes, pods and services: stream.New; nil: such requests answer 503.
	Streams func(stream.Config) stream.Server
	Nodes   stream.Nodes // nil: log, exec and the like answer 503
	// reaches pods and services for the proxy subresources; nil: the host's network, global unicast addresses alone
	Dial     stream.DialFunc
	Groups   discovery.Source // aggregated groups that other servers answer; nil: none
	Delegate http.Handler     // gets requests that Groups claims; nil: 503
	// Trusts says whether a user may tell that a write was made for this (trail.Header); nil: nobody may.
	Trusts func(ctx context.Context, u *auth.User, c *trail.Cause) bool
	// Witness sees what clients do; nil: nobody does.
	Witness Witness
	// Connect admits a connection to a subresource before it is made (admission CONNECT); nil: all are welcome.
	Connect func(ctx context.Context, r *server.Request, opts runtime.Object) error

	Audit *audit.Auditor // records requests, streams included; nil: nobody does

	Address  string                  // host:port told to clients in /api
	Live     []health.Check          // of /livez, /readyz and /healthz
	Traffic  []health.Check          // /readyz alone
	Begun    []health.Check          // of all three: what was started
	Ready    []health.Check          // /readyz and /healthz
	Flags    map[string]string       // with what the program was started, for /flagz: no secrets
	Registry *prometheus.Registry    // further metrics to expose; nil: an own one
	Process  prometheus.Gatherer     // metrics of the process, exposed too; nil: none
	Extra    map[string]http.Handler // further authorized paths, exact or ending in "/" for everything below
	// Before answers what is no request of this API, before anyone is asked who they are, and says that it did; nil: there is no such thing.
	Before func(w http.ResponseWriter, r *http.Request) bool

	Fair *fair.Fair // shares the server among callers; nil: 600 seats for all of them together
	// Count is about how many objects a list shows; nobody asks by how many they are more than enough. nil: few
	Count func(gvr schema.GroupVersionResource, ns string, enough int) int

	// Profiles answers for /debug/pprof/NAME; nil: there is no such page.
	Profiles func(w http.ResponseWriter, r *http.Request, name string)

	Verbosity func(n int) // sets how much is logged, as klog counts (PUT /debug/flags/v); nil: there is no such page

	Relieved func() // called when many streams have ended, which makes no garbage collector look; it must not block. nil: nobody is

	MaxBody    int64         // bytes; 0: 3 MiB
	Timeout    time.Duration // of requests that are not streams; 0: 60 s
	WriteStall time.Duration // how long a stream's client may take no bytes; 0: 30 s
}

// Issuer serves the public side of service account tokens.
type Issuer interface {
	// Configuration is the OpenID discovery document.
	Configuration() ([]byte, error)
	// Keys is the JSON web key set.
	Keys() ([]byte, error)
}

func (c *Config) fill() {
	if c.Version == nil {
		c.Version = DefaultVersion(c.Kinds.Features())
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
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
