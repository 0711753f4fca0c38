package csi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kloop-dev/kloop/node/plugins"
)

// callWithin bounds every call of a driver, as upstream.
const callWithin = 2 * time.Minute

// A driver is one that is registered: what it said of itself, and the way to it.
type driver struct {
	name     string
	version  *version.Version
	conn     *grpc.ClientConn
	node     csi.NodeClient
	id       string // of this node, to the driver
	topology map[string]string
	most     int64 // volumes that it can have on this node; 0: it does not say
	can      []csi.NodeServiceCapability_RPC_Type
}

func (d *driver) does(what csi.NodeServiceCapability_RPC_Type) bool {
	return slices.Contains(d.can, what)
}

// Drivers are the CSI drivers that are registered on this node. It is the plugins.Handler of their type.
type Drivers struct {
	books  *books
	within time.Duration // 0: callWithin
	wake   func()        // a driver came; nil: nobody waits
	came   chan struct{} // a driver came
	called func(driver, method string, took time.Duration, err error)

	mu sync.Mutex
	of map[string]*driver
}

// get returns the driver of the name, or a Waiting error.
func (ds *Drivers) get(name string) (*driver, error) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.of[name]
	if d == nil {
		return nil, notRegistered("mounter.SetUpAt failed to get CSI client", name)
	}
	return d, nil
}

func notRegistered(what, driver string) error {
	return Wait("kubernetes.io/csi: " + what + ": driver name " + driver + " not found in the list of registered CSI drivers")
}

// absent says, in the kubelet's words, that the volume's driver is not there.
func (r *Request) absent() error {
	name := r.id().driver
	switch {
	case r.PV == nil:
		return notRegistered("mounter.SetUpAt failed to get CSI client", name)
	case r.Block:
		return &StepError{"MapVolume.SetUpDevice", notRegistered("blockMapper.SetUpDevice failed to get CSI client", name)}
	}
	return &StepError{"MountVolume.MountDevice", notRegistered("attacher.MountDevice failed to create newCsiDriverClient", name)}
}

// Register implements plugins.Handler: it asks the driver who this node is to it, and enters it in the Node and the CSINode.
func (ds *Drivers) Register(ctx context.Context, p plugins.Plugin) error {
	v, err := newest(p.Versions)
	if err != nil {
		return err
	}
	if old, err := ds.get(p.Name); err == nil && !old.version.LessThan(v) {
		return fmt.Errorf("a driver %s of version %s is registered already: remove its socket first", p.Name, old.version)
	}
	d, err := ds.meet(ctx, p, v)
	if err != nil {
		return err
	}
	if err := ds.books.enter(ctx, d); err != nil {
		d.conn.Close()
		return fmt.Errorf("enter the driver in the Node and the CSINode: %w", err)
	}
	ds.mu.Lock()
	old := ds.of[p.Name]
	ds.of[p.Name] = d
	ds.mu.Unlock()
	if old != nil {
		old.conn.Close()
	}
	if ds.wake != nil {
		ds.wake()
	}
	select {
	case ds.came <- struct{}{}:
	default: // they are going to be looked at
	}
	return nil
}

// timed tells of each call of a driver.
func (ds *Drivers) timed(driver string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker,
		options ...grpc.CallOption) error {
		began := time.Now()
		err := next(ctx, method, req, reply, conn, options...)
		if ds.called != nil {
			ds.called(driver, method, time.Since(began), err)
		}
		return err
	}
}

// meet asks a driver what it is.
func (ds *Drivers) meet(ctx context.Context, p plugins.Plugin, v *version.Version) (*driver, error) {
	conn, err := plugins.Dial(p.Endpoint, grpc.WithUnaryInterceptor(ds.timed(p.Name)))
	if err != nil {
		return nil, err
	}
	d := &driver{name: p.Name, version: v, conn: conn, node: csi.NewNodeClient(conn)}
	ctx, stop := ds.limit(ctx)
	defer stop()
	if err := d.ask(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return d, nil
}

// ask fills what the driver says of itself.
func (d *driver) ask(ctx context.Context) error {
	info, err := d.node.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{}, grpc.WaitForReady(true)) // its socket may come a moment later
	if err != nil {
		return fmt.Errorf("ask the driver %s about this node: %w", d.name, err)
	}
	if info.NodeId == "" {
		return fmt.Errorf("the driver %s has no name for this node", d.name)
	}
	d.id, d.most = info.NodeId, min(info.MaxVolumesPerNode, math.MaxInt32)
	if info.AccessibleTopology != nil {
		d.topology = info.AccessibleTopology.Segments
	}
	caps, err := d.node.NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
	if err != nil {
		return fmt.Errorf("ask the driver %s what it can do: %w", d.name, err)
	}
	for _, c := range caps.Capabilities {
		d.can = append(d.can, c.GetRpc().GetType())
	}
	return nil
}

// Deregister implements plugins.Handler. What the driver has mounted stays.
func (ds *Drivers) Deregister(p plugins.Plugin) {
	ds.mu.Lock()
	d := ds.of[p.Name]
	if d == nil || d.conn.Target() != "passthrough:///"+p.Endpoint {
		ds.mu.Unlock() // a newer one of that name took its place
		return
	}
	delete(ds.of, p.Name)
	ds.mu.Unlock()
	d.conn.Close()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	ds.books.strike(ctx, d)
}

// limit bounds a call of a driver.
func (ds *Drivers) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	within := ds.within
	if within == 0 {
		within = callWithin
	}
	return context.WithTimeout(ctx, within)
}

// newest is the highest version of CSI 1 that a driver speaks.
func newest(list []string) (best *version.Version, err error) {
	for _, text := range list {
		v, perr := version.ParseGeneric(strings.TrimPrefix(text, "v"))
		if perr != nil {
			err = errors.Join(err, perr)
			continue
		}
		if v.Major() == 1 && (best == nil || best.LessThan(v)) {
			best = v
		}
	}
	if best == nil {
		return nil, errors.Join(fmt.Errorf("it speaks CSI %q, and this agent CSI 1 only", list), err)
	}
	return best, nil
}
