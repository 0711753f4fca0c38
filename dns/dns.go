// Package dns is the cluster DNS: a server in every node's agent that answers for the cluster domain from the snapshot that the
// service proxy has too, and forwards everything else, with a cache (what CoreDNS's plugins kubernetes, forward and cache do).
//
//	reads   Services, EndpointSlices, Namespaces, Nodes
//	writes  Node: the annotation kloop.dev/cluster-dns on the node's own Node, which says where this server listens
//	rule    every name of the Kubernetes DNS specification 1.1.0 has its records, and no other name below the domain exists
//
// What a Service says is a pure function of it and of its slices (newService), and so is the answer to a question (zone.lookup).
// Pods reach the server at the cluster IP of the Service kube-system/kube-dns, which the loop cluster-dns publishes.
package dns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/kloop-dev/kloop/client"
)

// Defaults of Config.
const (
	DefaultDomain = "cluster.local"
	DefaultPort   = 10053
	MetricsPort   = 9153 // CoreDNS's
)

// Config says what a server answers and where. It reads Client's Services, EndpointSlices, Namespaces and Nodes.
type Config struct {
	Client    client.Client
	Node      string       // name of this node
	Addresses []netip.Addr // of this node, where the server listens: one, or one of each family
	Port      uint16       // UDP and TCP; 0: DefaultPort
	Metrics   uint16       // port of /metrics, /health and /ready; 0: MetricsPort

	Domain  string       // cluster domain; "": DefaultDomain
	Cluster []netip.Addr // cluster IPs of the cluster DNS: the server must not forward to itself

	ResolvConf string              // whose name servers are asked for names outside the cluster; "": /etc/resolv.conf
	Upstreams  []netip.AddrPort    // asked in their place
	Stubs      map[string][]string // stub domains: DOMAIN → its name servers, ADDRESS or ADDRESS:PORT

	Log *slog.Logger
}

// Check finds what can't be meant.
func (c Config) Check() error {
	_, err := c.routes()
	return err
}

func (c *Config) fill() {
	c.Domain = strings.ToLower(strings.Trim(cmp.Or(c.Domain, DefaultDomain), "."))
	c.Port = cmp.Or(c.Port, DefaultPort)
	c.Metrics = cmp.Or(c.Metrics, MetricsPort)
	c.ResolvConf = cmp.Or(c.ResolvConf, "/etc/resolv.conf")
	if c.Log == nil {
		c.Log = slog.Default()
	}
}

// Run serves until ctx ends; ready is called when the first answers can be had. It fails at once when it can't listen.
func Run(ctx context.Context, cfg Config, ready func()) error {
	cfg.fill()
	s, err := newServer(cfg)
	if err != nil {
		return err
	}
	list, err := listenAll(ctx, cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 2+2*len(list))
	begin := func(run func(context.Context) error) {
		go func() { done <- run(ctx); stop() }()
	}
	synced := make(chan struct{})
	begin(func(ctx context.Context) error {
		return s.zone.follow(ctx, cfg.Client, func() { close(synced); ready() })
	})
	for i, l := range list {
		begin(func(ctx context.Context) error {
			l.settle(ctx, synced)
			return l.serve(ctx, s)
		})
		begin(func(ctx context.Context) error {
			return s.pages(ctx, netip.AddrPortFrom(cfg.Addresses[i], cfg.Metrics))
		})
	}
	begin(func(ctx context.Context) error { return announce(ctx, cfg) })
	var errs []error
	for range cap(done) {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

// listenAll opens the sockets of all addresses, or none.
func listenAll(ctx context.Context, cfg Config) (list []*listener, err error) {
	was, anew := inherit(), false
	defer func() {
		for _, l := range was { // of addresses that the node has no more
			l.close()
		}
	}()
	for _, a := range cfg.Addresses {
		at := netip.AddrPortFrom(a, cfg.Port)
		if l := was[at]; l.whole() {
			list = append(list, l)
			delete(was, at)
			continue
		}
		l, err := listen(ctx, at)
		if anew = true; err != nil {
			for _, l := range list {
				l.close()
			}
			return nil, fmt.Errorf("serve the cluster DNS on %s port %d (--dns=false when something else serves it there): %w", a, cfg.Port, err)
		}
		list = append(list, l)
	}
	if anew || len(was) > 0 {
		if err := bequeath(list); err != nil {
			cfg.Log.Debug("sockets of the cluster DNS end with this process", "err", err)
		}
	}
	return list, nil
}
