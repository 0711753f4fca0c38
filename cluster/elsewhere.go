package cluster

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authn"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/auth/rbac"
	"github.com/kloop-dev/kloop/auth/webhook"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/gaps"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/web"
	callers "github.com/kloop-dev/kloop/webhook"
)

// Elsewhere names a cluster that a server explains without being part of it. The cluster is read, again and again, and never written. Its
// front proxy and its reviews of tokens say for whom a request is, and its reviews of access what they may see.
type Elsewhere struct {
	Rest  *rest.Config
	Every time.Duration // at least between two looks; 0: 15 s
	// Survey reads the cluster, as survey.World does.
	Survey func(ctx context.Context, raw rest.Interface) (*converge.World, error)
}

// An Other is a cluster that is not this server's own, as an *Elsewhere. Programs that name none do not link what reads one.
type Other interface {
	open(log *slog.Logger) (far, error)
}

// far is an Other that is read.
type far interface {
	board
	authn.Tokens
	auth.Authenticator
	http.Handler // answers with the rights of the caller
	authorizer() (auth.Authorizer, error)
	gaps() *server.MemoryKinds
}

// What bounds how often a cluster elsewhere is asked.
const (
	usualEvery = 15 * time.Second
	restShare  = 10               // times what a look took is the rest after it
	rightsTTL  = 10 * time.Second // how long it is remembered who may see what, and whose a token is
)

// elsewhere keeps what has not converged in another cluster.
type elsewhere struct {
	rest *rest.Config
	raw  rest.Interface
	*web.Passage
	every  time.Duration
	survey func(ctx context.Context, raw rest.Interface) (*converge.World, error)
	log    *slog.Logger
	tokens *webhook.Tokens
	proxy  atomic.Pointer[authn.Proxy] // nil until that cluster has told whom its front proxy's certificates are of
	shelf  *server.MemoryKinds
	fights *gaps.Cache // finds what is set back and forth

	authority string // that the proxy was made of; of the goroutine that looks

	mu    sync.Mutex
	now   *converge.World // never explained from itself: copies are
	shown map[convergenceKey]string
}

type convergenceKey struct{ ns, name string }

func (k convergenceKey) compare(o convergenceKey) int {
	return cmp.Or(cmp.Compare(k.ns, o.ns), cmp.Compare(k.name, o.name))
}

func (cfg *Elsewhere) open(log *slog.Logger) (far, error) {
	raw, err := client.Raw(cfg.Rest)
	if err != nil {
		return nil, err
	}
	e := &elsewhere{rest: cfg.Rest, raw: raw, every: cmp.Or(cfg.Every, usualEvery), survey: cfg.Survey, log: log,
		shown: map[convergenceKey]string{}}
	if e.tokens, err = webhook.TokensOf(callers.Kubeconfigs(), cfg.Rest); err != nil {
		return nil, err
	}
	if e.Passage, err = passage(cfg.Rest); err != nil {
		return nil, err
	}
	e.shelf = server.NewMemoryKinds(e.Refresh, convergence.All()...)
	e.fights = &gaps.Cache{Store: e.shelf, Log: log}
	return e, nil
}

func (e *elsewhere) gaps() *server.MemoryKinds { return e.shelf }

// passage leads to the cluster, for those who bring a token of it: no certificate or token of this server's own goes along.
func passage(cfg *rest.Config) (*web.Passage, error) {
	at, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(cfg))
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return web.NewPassage(at, transport, true), nil
}

// passes says that a request is for the cluster elsewhere: all that comes with a token is, but what only this server answers. The cluster's
// own server brings none when it asks what is served here.
func passes(r *http.Request) bool {
	if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return false
	}
	p := r.URL.Path
	return (p == "/version" || p == "/api" || p == "/apis" || strings.HasPrefix(p, "/api/") || strings.HasPrefix(p, "/apis/")) &&
		p != convergencePath && !strings.HasPrefix(p, convergencePath+"/")
}

// convergencePath is the path of the group that this server answers.
var convergencePath = "/apis/" + convergence.GroupVersion.Group

// authorizer asks the cluster itself who may do what.
func (e *elsewhere) authorizer() (auth.Authorizer, error) {
	there, err := webhook.NewAuthorizer(webhook.Config{Name: "cluster", Ways: callers.Kubeconfigs(), Cluster: e.rest, Version: "v1",
		Timeout: webhookTimeout, AllowedTTL: rightsTTL, RefusedTTL: rightsTTL, DenyOnFailure: true})
	return auth.Chain{rbac.Masters{}, there}, err
}

// Token implements authn.Tokens: a token is for that cluster, whatever it calls itself.
func (e *elsewhere) Token(ctx context.Context, text string, wanted []string) (*auth.User, []string, bool, error) {
	u, _, ok, err := e.tokens.Token(ctx, text, nil)
	return u, wanted, ok, err
}

// Authenticate implements auth.Authenticator: that cluster's front proxy speaks for its users.
func (e *elsewhere) Authenticate(r *http.Request) (*auth.User, bool, error) {
	if p := e.proxy.Load(); p != nil {
		return p.Authenticate(r)
	}
	nobody := &authn.Proxy{Roots: func() *x509.CertPool { return pki.Pool() }} // it takes the headers out
	return nobody.Authenticate(r)
}

// Run implements board: it looks until ctx ends.
func (e *elsewhere) Run(ctx context.Context) error {
	for {
		began := time.Now()
		if err := e.look(ctx); err != nil && ctx.Err() == nil {
			e.log.Warn("read the cluster that is explained", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(e.every, restShare*time.Since(began))):
		}
	}
}

func (e *elsewhere) look(ctx context.Context) error {
	err := e.learnProxy(ctx)
	now, failed := e.survey(ctx, e.raw)
	if failed != nil {
		return errors.Join(err, failed)
	}
	e.mu.Lock()
	before := e.now
	e.now = now
	e.mu.Unlock()
	if before != nil {
		e.fights.Take(client.Batch{Read: now.Read, Changes: changesBetween(before, now)})
	}
	return errors.Join(err, e.publish(ctx))
}

// publish shows the gaps.
func (e *elsewhere) publish(ctx context.Context) error {
	list, _ := gaps.List(e.World(), "")
	var put, off []resource.Object
	next := map[convergenceKey]string{}
	for _, g := range list {
		converge.Foreign(g)
		text, err := json.Marshal(g)
		if err != nil {
			return fmt.Errorf("show gaps: %w", err)
		}
		key := convergenceKey{g.Namespace, g.Name}
		if next[key] = string(text); e.shown[key] != next[key] {
			put = append(put, g)
		}
	}
	for key := range e.shown {
		if next[key] == "" {
			off = append(off, &convergence.Gap{ObjectMeta: metav1.ObjectMeta{Namespace: key.ns, Name: key.name}})
		}
	}
	e.shown = next
	return e.shelf.Change(context.WithoutCancel(ctx), convergence.Gaps, put, off)
}

// World implements board.
func (e *elsewhere) World() *converge.World {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now == nil {
		return &converge.World{Read: e.shelf.Read(), Kinds: resource.NewSet(), Now: time.Now()}
	}
	return &converge.World{Read: e.now.Read, Kinds: e.now.Kinds, Now: time.Now(), Rules: e.now.Rules, Unseen: e.now.Unseen}
}

// Refresh implements board. Gaps are as old as the last look; before the first it fails.
func (e *elsewhere) Refresh(ctx context.Context, k resource.Kind) error {
	e.mu.Lock()
	seen := e.now != nil
	e.mu.Unlock()
	switch {
	case !seen:
		return apierrors.NewServiceUnavailable("the cluster has not been read yet, or can't be: see the log of kloop lookout")
	case k == resource.Kind(convergence.Fights):
		return e.fights.Refresh(ctx, k)
	}
	return nil
}

// changesBetween compares two looks: objects that are in both and were written in between.
func changesBetween(a, b *converge.World) (list []client.Change) {
	for _, k := range b.Kinds.All() {
		if k.Info().Virtual {
			continue
		}
		was, ok := a.Kinds.Kind(k.Info().GVK)
		if !ok {
			continue
		}
		for obj := range b.Read.Each(k, "") {
			old := a.Read.Lookup(was, obj.GetNamespace(), obj.GetName())
			if old != nil && old.GetUID() == obj.GetUID() && old.GetResourceVersion() != obj.GetResourceVersion() {
				list = append(list, client.Change{Kind: k, Old: old, New: obj})
			}
		}
	}
	return list
}

// learnProxy reads whom the cluster's front proxy is known by: upstream's API servers write it down for those that extend them
// (https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer).
func (e *elsewhere) learnProxy(ctx context.Context) error {
	data, err := e.raw.Get().AbsPath("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("read how the cluster's front proxy is known, configmap kube-system/extension-apiserver-authentication: %w",
			client.Refusal(data, err))
	}
	var cm corev1.ConfigMap
	if err := json.Unmarshal(data, &cm); err != nil {
		return err
	}
	authority, allowed := cm.Data["requestheader-client-ca-file"], cm.Data["requestheader-allowed-names"]
	if authority+allowed == e.authority {
		return nil
	}
	certs, err := cert.ParseCertsPEM([]byte(authority))
	if err != nil {
		return fmt.Errorf("read the authority of the cluster's front proxy: %w", err)
	}
	var names []string
	if err := json.Unmarshal([]byte(cmp.Or(allowed, "[]")), &names); err != nil {
		return fmt.Errorf("read the names of the cluster's front proxy: %w", err)
	}
	pool := pki.Pool(certs...)
	e.proxy.Store(&authn.Proxy{Roots: func() *x509.CertPool { return pool }, Names: names})
	e.authority = authority + allowed
	return nil
}
