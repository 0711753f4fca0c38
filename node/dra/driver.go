package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/plugins"
	"github.com/kloop-dev/kloop/resource"
)

// The services of drivers, as they name them when they register, the one to prefer first. The messages of both versions of one service
// are the same on the wire.
var (
	claimServices  = []string{"v1.DRAPlugin", "v1beta1.DRAPlugin"}
	healthServices = []string{"v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"}
)

// A driver is a connection to one instance of a DRA driver.
type driver struct {
	plugin plugins.Plugin
	conn   *grpc.ClientConn
	path   string // of its methods
	stop   context.CancelFunc
}

// pick is the first of some services that the plugin offers; "": none.
func pick(services []string, p plugins.Plugin) string {
	for _, s := range services {
		if slices.Contains(p.Versions, s) {
			return s
		}
	}
	return ""
}

// Register implements plugins.Handler.
func (c *Claims) Register(_ context.Context, p plugins.Plugin) error {
	service := pick(claimServices, p)
	if service == "" {
		return fmt.Errorf("the DRA driver %s speaks %q, and this node %q", p.Name, p.Versions, claimServices)
	}
	conn, err := plugins.Dial(p.Endpoint)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(c.life)
	d := &driver{plugin: p, conn: conn, path: "/k8s.io.kubelet.pkg.apis.dra." + service + "/", stop: stop}
	c.mu.Lock()
	if c.life.Err() != nil {
		c.mu.Unlock()
		d.close()
		return errors.New("the agent ends")
	}
	c.drivers[p.Name] = append(c.drivers[p.Name], d)
	if service := pick(healthServices, p); service != "" {
		c.wg.Go(func() { c.watchHealth(ctx, d, "/"+service+"/NodeWatchResources") })
	}
	c.mu.Unlock()
	c.cfg.Came()
	return nil
}

// Deregister implements plugins.Handler.
func (c *Claims) Deregister(p plugins.Plugin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drivers[p.Name] = slices.DeleteFunc(c.drivers[p.Name], func(d *driver) bool {
		if d.plugin.Endpoint != p.Endpoint {
			return false
		}
		d.close()
		return true
	})
	if len(c.drivers[p.Name]) == 0 {
		delete(c.drivers, p.Name)
	}
}

func (d *driver) close() {
	d.stop()
	_ = d.conn.Close() // nothing is written by it
}

// close ends the connections to all drivers.
func (c *Claims) close() {
	defer c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	for _, list := range c.drivers {
		for _, d := range list {
			d.close()
		}
	}
	clear(c.drivers)
}

// driver is the newest instance of a driver that can be reached, or else the newest. reached: it is of the former.
func (c *Claims) driver(name string) (d *driver, reached bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.drivers[name]
	if len(list) == 0 {
		return nil, false, fmt.Errorf("DRA driver %s is not registered", name)
	}
	for _, d := range slices.Backward(list) {
		if !d.broken() {
			return d, true, nil
		}
	}
	return list[len(list)-1], false, nil
}

// broken says that nobody answers at the driver's socket. One that nobody has called for a while is called first.
func (d *driver) broken() bool {
	d.conn.Connect()
	return d.conn.GetState() == connectivity.TransientFailure
}

func (d *driver) prepare(ctx context.Context, q *drav1.NodePrepareResourcesRequest) (*drav1.NodePrepareResourcesResponse, error) {
	res := &drav1.NodePrepareResourcesResponse{}
	return res, d.conn.Invoke(ctx, d.path+"NodePrepareResources", q, res)
}

func (d *driver) unprepare(ctx context.Context, q *drav1.NodeUnprepareResourcesRequest) (*drav1.NodeUnprepareResourcesResponse, error) {
	res := &drav1.NodeUnprepareResourcesResponse{}
	return res, d.conn.Invoke(ctx, d.path+"NodeUnprepareResources", q, res)
}

// How long a driver may be away before what it offers is taken from the cluster, and how often that is looked at.
const (
	patience  = 30 * time.Second
	lookEvery = 10 * time.Second
)

// Run removes the ResourceSlices of drivers of this node that have been away for long, until ctx ends, and lets go of all drivers
// then. The scheduler would give out devices that nobody prepares.
func (c *Claims) Run(ctx context.Context) {
	defer c.close()
	away := map[string]time.Time{} // since when
	for {
		if err := c.wipe(ctx, away, time.Now()); err != nil && ctx.Err() == nil {
			c.log.Warn("remove the ResourceSlices of a driver that is gone", "err", err, "again", lookEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
	}
}

func (c *Claims) wipe(ctx context.Context, away map[string]time.Time, now time.Time) error {
	var errs []error
	seen := map[string]bool{}
	for _, s := range resource.List(c.cfg.Client.Read(), kinds.ResourceSlices, "") {
		if s.Spec.NodeName == nil || *s.Spec.NodeName != c.cfg.Node {
			continue
		}
		if _, reached, _ := c.driver(s.Spec.Driver); reached {
			delete(away, s.Spec.Driver)
			continue
		}
		seen[s.Spec.Driver] = true
		if since, known := away[s.Spec.Driver]; !known {
			away[s.Spec.Driver] = now
		} else if now.Sub(since) >= patience {
			errs = append(errs, c.delete(ctx, s))
		}
	}
	for name := range away {
		if !seen[name] {
			delete(away, name)
		}
	}
	return errors.Join(errs...)
}

func (c *Claims) delete(ctx context.Context, s *resourcev1.ResourceSlice) error {
	err := c.cfg.Client.Delete(ctx, kinds.ResourceSlices, "", s.Name, nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
