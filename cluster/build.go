package cluster

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authn"
	"github.com/kloop-dev/kloop/auth/rbac"
	"github.com/kloop-dev/kloop/auth/review"
	"github.com/kloop-dev/kloop/auth/token"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/kinds/served"
	"github.com/kloop-dev/kloop/openapi"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/access"
	"github.com/kloop-dev/kloop/server/extensions"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/server/httpapi/aggregator"
	"github.com/kloop-dev/kloop/server/httpapi/health"
	"github.com/kloop-dev/kloop/server/services"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/view"
)

// A builder makes a front door, with what its parts need of each other only then.
type builder struct {
	*frontDoor
	roles   *rbac.Authorizer
	authz   auth.Authorizer
	plugins admission.Chain
	meter   *admission.Meter
	tokens  authn.Tokens
	docs    *openapi.Docs
}

// pace is the time that lies between two looks of loops and watches at what has changed, in a storm of writes.
const pace = 2 * time.Millisecond

// newFrontDoor makes the front door, part by part: each may use what those above it made. Nothing runs yet.
func newFrontDoor(c *Cluster, st store.Store) (*frontDoor, error) {
	b := &builder{frontDoor: &frontDoor{c: c, log: c.cfg.Log, set: served.Set(c.cfg.on, c.cfg.RuntimeConfig, c.cfg.kinds()), store: st,
		fields:  apply.NewTracker(),
		virtual: map[resource.Kind]server.Operations{}, metrics: prometheus.NewRegistry(), trail: c.newTrail()}}
	b.certs.frontDoor = b.frontDoor
	b.view, b.docs, b.caller = view.NewWith(b.set, view.Config{Shed: c.cfg.Shed, Pace: pace}), openapi.New(b.set), b.newCaller()
	for _, makePart := range []func() error{
		b.makeSigner,     // service account tokens
		b.makeDialer,     // connections to node agents
		b.newAuditor,     // what is recorded of requests
		b.makeAuthorizer, // who may do what
		b.makeAdmission,  // what is changed in requests, and refused
		b.makeTokens,     // who is believed by a token
		b.makeServer,     // the operations on objects
		b.makeMetrics,    // metrics.k8s.io, and figures for Prometheus
		b.makeGaps,       // convergence.kloop.dev
		b.makePast,       // what changed, and how it was
		b.makeOthers,     // kinds that users define, and groups that other servers answer
		b.makeHandler,    // all of it over HTTP
	} {
		if err := makePart(); err != nil {
			return nil, err
		}
	}
	return b.frontDoor, nil
}

func (b *builder) makeSigner() error {
	keys, err := b.c.tokenConfig()
	if err != nil {
		return err
	}
	b.uses = make(tokenUses, 64)
	keys.Used = b.uses.used
	b.signer, err = token.New(keys)
	return err
}

func (b *builder) makeDialer() (err error) {
	b.dialer, err = newAgentDialer(b.c.keys)
	return err
}

func (b *builder) makeAuthorizer() (err error) {
	b.roles = rbac.New(b.read)
	var agents auth.Authorizer = auth.Chain{} // has no opinion
	if b.c.cfg.Kit.Agents != nil {
		agents = b.c.cfg.Kit.Agents(b.read)
	}
	b.authz, err = b.c.authorizer(agents, b.roles)
	return err
}

func (b *builder) makeAdmission() (err error) {
	b.plugins, err = b.admission(b.authz)
	b.meter = admission.NewMeter(b.plugins, b.metrics)
	return err
}

func (b *builder) makeTokens() (err error) {
	b.tokens, err = b.frontDoor.tokens()
	return err
}

func (b *builder) makeServer() error {
	cfg := b.c.cfg
	b.server, b.alloc = extensions.New(server.Config{Trail: b.tracked(), Kinds: b.set, Store: b.store, View: b.view,
		Authorize: b.authz, Fields: b.fields,
		Admission: b.plugins, Meter: b.meter,
		NoWatchList: !cfg.on.On("WatchList"), Sole: !b.c.storage.shared(), Stale: stale(b.store),
	}, extensions.Config{More: cfg.Kit.Extensions, Network: services.Network{Services: cfg.ServiceCIDRs, PortLow: cfg.NodePortLow,
		PortHigh: cfg.NodePortHigh},
		Access: access.Config{Tokens: b.signer, Grants: b.roles,
			Reviews: &review.Desk{Tokens: b.tokens, Audiences: b.signer.Audiences(), Authorize: b.authz, Rules: b.roles.Rules,
				Features: cfg.on}}})
	b.events = client.NewRecorder(b.local(loopUser("event-recorder"), "kloop"), "kloop", nil)
	return nil
}

func (b *builder) makeMetrics() error {
	b.metrics.MustRegister(figures{b.frontDoor}, issuerFigures{b.frontDoor}, counted{&b.c.figures})
	if b.c.cfg.NoLoops {
		return nil
	}
	return b.serveMetrics()
}

func (b *builder) makeGaps() error {
	if b.c.cfg.NoConvergence {
		return nil
	}
	return b.serveGaps(b.docs, b.authz)
}

func (b *builder) makeOthers() error {
	b.custom = &crd.Registry{Kinds: b.set, View: b.view, Fields: b.fields, Docs: b.docs, Webhooks: b.caller}
	front, err := frontProxy(b.c.keys)
	if err != nil {
		return err
	}
	b.others = &aggregator.Aggregator{Kinds: b.set, Read: b.read, Cert: front.Client, HTTP2: b.c.cfg.Kit.HTTP2}
	return nil
}

func (b *builder) makeHandler() error {
	c, d := b.c, b.frontDoor
	b.handler = httpapi.New(httpapi.Config{Streams: c.cfg.Kit.Streams, Evictions: c.cfg.Kit.Evictions, Profiles: c.cfg.Kit.Profiles,
		Ops: b.server, Virtual: b.virtualOps, Kinds: b.set, Authn: b.authn(authn.TokenUnion{b.tokens, joinTokens{c.keys}}),
		Authz: serverAccess{b.authz}, Extra: c.pages(d), Address: c.address, NoAnonymous: true,
		Before:  pageOf(c),
		OpenAPI: b.others.Docs(b.docs), Issuer: newIssuer(b.signer, c), Nodes: agents{d}, Groups: b.others, Delegate: b.others,
		Connect: b.server.Connect, Registry: b.metrics, Process: b.ofProcess(),
		Audit: b.auditor, Fair: b.fair(), Count: b.count, Witness: b.witness(), Trusts: trusts(b.authz),
		Live: []health.Check{storeAnswers("etcd", b.store)}, Flags: c.cfg.Flags, Relieved: c.cfg.Relieved, Verbosity: c.cfg.Verbosity,
		Traffic: []health.Check{storeAnswers("etcd-readiness", b.store), {Name: "informer-sync", Run: reached}},
		Begun:   started(), Ready: keyChecks(b.store),
	})
	return nil
}
