package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/metrics/usage"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// serveVirtual has a kind that is not stored answered by ops. It must be called before the API serves.
func (d *frontDoor) serveVirtual(ops server.Operations, list ...resource.Kind) error {
	if err := d.set.Put(list...); err != nil {
		return err
	}
	for _, k := range list {
		d.virtual[k] = ops
	}
	return nil
}

// virtualOps implements httpapi.Config.Virtual.
func (d *frontDoor) virtualOps(k resource.Kind) server.Operations { return d.virtual[k] }

// serveMetrics makes the API metrics.k8s.io: what nodes and pods use, as the nodes' agents tell.
func (d *frontDoor) serveMetrics() error {
	if d.c.cfg.Kit.Meter == nil {
		return nil
	}
	d.meter = d.c.cfg.Kit.Meter(kit.MeterConfig{Read: d.read, Ask: d.use, Log: d.log})
	return d.serveVirtual(server.ComputedKind(d.meter.Objects), d.meter.Kinds()...)
}

// measure keeps what is known of uses fresh while somebody asks.
func (d *frontDoor) measure(ctx context.Context, ready func()) error {
	ready()
	d.meter.Run(ctx)
	return nil
}

// maxSummary bounds an agent's answer.
const maxSummary = 16 << 20

// use asks a node's agent what was used; for a simulated node its pods' annotations say.
func (d *frontDoor) use(ctx context.Context, n *corev1.Node) (*usage.Summary, error) {
	if core.Simulated(n) && d.c.cfg.Kit.Nodes != nil {
		return d.c.cfg.Kit.Nodes.Use(d.read(), n.Name, time.Now()), nil
	}
	at, err := agents{d}.Endpoint(ctx, n.Name)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.URL+"/stats/summary", nil)
	if err != nil {
		return nil, err
	}
	res, err := at.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxSummary))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the agent says %s", res.Status)
	}
	return usage.Parse(data, time.Now())
}

// restAs returns a client over HTTP that acts as the user: for what only the wire offers, aggregated APIs among them.
func (c *Cluster) restAs(u *auth.User) (rest.Interface, error) {
	cfg, err := c.restOf(c.URL(), u)
	if err != nil {
		return nil, err
	}
	return c.raw(cfg)
}

// errNoOthers says that the kit has no clients of other servers.
var errNoOthers = errors.New("this program talks to no other servers")

// raw returns a client over HTTP.
func (c *Cluster) raw(cfg *rest.Config) (rest.Interface, error) {
	if c.cfg.Kit.Raw == nil {
		return nil, errNoOthers
	}
	return c.cfg.Kit.Raw(cfg)
}

// restOf returns the user's way to a server of this cluster.
func (c *Cluster) restOf(url string, u *auth.User) (*rest.Config, error) {
	cert, key, err := c.keys.CA.Issue(pki.Leaf{User: u.Name, Groups: u.Groups, Client: true}, time.Now())
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{CAData: c.cred.root(), CertData: cert, KeyData: key}}, nil
}
