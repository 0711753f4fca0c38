package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authn"
	"github.com/kloop-dev/kloop/auth/bootstrap"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/auth/token"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/audit"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/server/httpapi/aggregator"
	"github.com/kloop-dev/kloop/server/services"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/member"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/trail"
	"github.com/kloop-dev/kloop/view"
	"github.com/kloop-dev/kloop/webhook"
)

// frontDoor is the API server and what it stands on.
type frontDoor struct {
	c         *Cluster
	log       *slog.Logger
	set       *resource.Set
	store     store.Store
	view      *view.View
	fields    *apply.Tracker
	signer    *token.Signer
	server    *server.Server
	alloc     *services.Allocator
	handler   *httpapi.Handler
	events    *client.Recorder
	dialer    *agentDialer // to node agents
	meter     kit.Meter    // nil: this program has none
	uses      tokenUses
	trail     *trail.Log                          // nil: none is kept
	past      *archive                            // nil: nothing is known of it
	virtual   map[resource.Kind]server.Operations // who answers for kinds that are not stored
	explainer *explainer                          // nil: nothing is explained
	unwell    *selfCheck                          // with an explainer
	custom    *crd.Registry
	outside   extraAuthn      // who is believed by configuration
	auditor   *audit.Auditor  // nil: nothing is recorded
	caller    *webhook.Caller // of webhooks
	others    *aggregator.Aggregator
	metrics   *prometheus.Registry
	certs     keyDesk
}

// A storage is this server's part in the store: the member of etcd, its certificate and snapshots, and how other servers join.
type storage struct {
	cfg     Config
	keys    *pki.PKI      // nil until joinKeys has brought them
	etcd    member.Member // with a member of its own; nil: there is none
	peerURL string        // of that member, for others
}

// openStore opens the store that the configuration asks for.
func (s *storage) openStore(ctx context.Context) (store.Store, error) {
	switch {
	case s.cfg.Store == StoreMemory:
		return memory.New(), nil
	case len(s.cfg.EtcdServers) > 0:
		t := s.cfg.EtcdTLS
		return s.cfg.Kit.Etcd.Dial(ctx, member.Remote{Endpoints: s.cfg.EtcdServers, CAFile: t.CA, CertFile: t.Cert, KeyFile: t.Key,
			Log: s.cfg.Log})
	}
	peers, err := s.peers()
	if err != nil {
		return nil, err
	}
	s.etcd, err = s.cfg.Kit.Etcd.Open(ctx, member.Config{Dir: filepath.Join(s.cfg.DataDir, "etcd"), Peers: peers, Log: s.cfg.Log})
	if err != nil {
		if peers != nil {
			_ = peers.Listener.Close() // open or not
		}
		return nil, s.explainCorrupt(err)
	}
	return s.etcd, nil
}

func (d *frontDoor) read() resource.Reader { return d.view.Snapshot() }

// authn are the authenticators: certificates of our CA, the front proxy's word, tokens.
func (d *frontDoor) authn(tokens authn.Tokens) auth.Authenticator {
	d.c.seen = &authn.Certs{Roots: d.c.cred.callers}
	var proxy auth.Authenticator = &authn.Proxy{Roots: d.c.keys.FrontProxy.Pool, Names: []string{pki.FrontProxyUser}}
	if d.c.elsewhere != nil {
		proxy = d.c.elsewhere
	}
	return &authn.Front{Anonymous: func(path string) bool { return !d.c.cfg.NoAnonymous && d.outside.anonymous(path) }, Known: authn.Union{
		proxy,
		d.c.seen,
		authn.Bearer{Tokens: tokens, Audiences: d.signer.Audiences()},
	}}
}

// local returns a client in this process.
func (d *frontDoor) local(u *auth.User, manager string) *client.Local {
	return &client.Local{Ops: d.server, View: d.view, Set: d.set, User: u, Manager: manager}
}

// loopUser is the service account that a loop acts as; upstream's controllers have the same.
func loopUser(name string) *auth.User {
	return &auth.User{Name: "system:serviceaccount:kube-system:" + name,
		Groups: []string{auth.GroupServiceAccount, auth.GroupServiceAccount + ":kube-system", auth.GroupAuthenticated}}
}

// keepStore closes the store when everything above it has stopped.
func (d *frontDoor) keepStore(ctx context.Context, ready func()) error {
	ready()
	var gone <-chan struct{}
	if d.c.storage.etcd != nil {
		gone = d.c.storage.etcd.Gone()
	}
	select {
	case <-ctx.Done():
		return d.store.Close()
	case <-gone:
		return errors.Join(errors.New("the member of the store in this server stopped: it was removed from the cluster, or its disk failed"),
			d.store.Close())
	}
}

func (d *frontDoor) follow(ctx context.Context, ready func()) error {
	go d.fields.Warm()
	return d.view.Follow(ctx, d.store, ready)
}

// beginnings tell on what the objects of every cluster depend.
func (d *frontDoor) beginnings() bootstrap.Config {
	return bootstrap.Config{Features: d.set.Features(), ServiceCIDRs: d.c.cfg.serviceCIDRs(), ClientCA: string(d.c.cred.trusted()),
		FrontProxyCA: string(d.c.keys.FrontProxy.PEM()), FrontProxyName: pki.FrontProxyUser}
}

// trustObjects are those objects that tell whom to trust.
func (d *keyDesk) trustObjects() []resource.Object {
	return []resource.Object{bootstrap.Authentication(d.beginnings()), d.authority()}
}

// bootstrap writes what every cluster has from the start.
func (d *frontDoor) bootstrap(ctx context.Context, ready func()) error {
	objects := bootstrap.Objects(d.beginnings())
	written := append(append(append(append(objects, nodeBindings()...), explainers()), reporters()...), d.authority())
	if err := d.server.Bootstrap(ctx, written); err != nil {
		return fmt.Errorf("write the bootstrap objects: %w", err)
	}
	if err := d.alloc.TellRanges(ctx, objects); err != nil {
		return fmt.Errorf("write the bootstrap objects: %w", err)
	}
	if at := d.c.advertised(); !d.c.storage.shared() || len(at) == 0 { // else stay does
		if err := d.alloc.PublishEndpoints(ctx, at); err != nil {
			return fmt.Errorf("publish the service kubernetes: %w", err)
		}
	}
	if err := d.alloc.Repair(ctx); err != nil {
		d.log.Warn("check what is allocated to services", "err", err)
	}
	ready()
	<-ctx.Done()
	return nil
}

func (d *frontDoor) serve(ctx context.Context, l net.Listener, ready func()) error {
	ready() // the socket takes connections already
	return d.handler.Serve(ctx, l, &tls.Config{MinVersion: tls.VersionTLS12,
		GetCertificate: d.c.certificate, ClientAuth: tls.RequestClientCert})
}

// repair gives back what is allocated to services that are not there, while other servers allocate too.
func (d *frontDoor) repair(ctx context.Context, ready func()) error {
	ready()
	d.alloc.RepairLoop(ctx)
	return nil
}

func (d *frontDoor) record(ctx context.Context, ready func()) error {
	ready()
	d.events.Run(ctx)
	return nil
}

// issuer serves the public side of service account tokens.
type issuer struct {
	signer *token.Signer
	server string
}

// newIssuer publishes the keys at an address that pods reach, or else at one that clients on this machine do.
func newIssuer(s *token.Signer, c *Cluster) issuer {
	if at := c.advertised(); len(at) > 0 {
		return issuer{s, "https://" + at[0].String()}
	}
	return issuer{s, c.URL()}
}

// Configuration implements httpapi.Issuer.
func (i issuer) Configuration() ([]byte, error) { return i.signer.Discovery(i.server) }

// Keys implements httpapi.Issuer.
func (i issuer) Keys() ([]byte, error) { return i.signer.JWKS() }
