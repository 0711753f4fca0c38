// Package dradriver is a DRA driver for tests: it registers at an agent over real sockets, prepares what it is asked to, and keeps what
// it was asked.
package dradriver

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc"
	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// A Driver serves one node. Set the fields before Start.
type Driver struct {
	drav1.UnimplementedDRAPluginServer
	registration.UnimplementedRegistrationServer
	drahealthv1.UnimplementedDRAResourceHealthServer

	Root string // the agent's root directory
	Name string
	// Devices tells which devices of the driver a claim has; nil: one, named as the claim.
	Devices func(c *drav1.Claim) []*drav1.Device
	Beta    bool // it speaks v1beta1 and v1alpha1 of health
	// Instance tells several of one driver apart, by their sockets.
	Instance string

	mu      sync.Mutex
	srv     *grpc.Server
	calls   []string
	fail    error
	health  []*drahealthv1.DeviceHealth
	changed chan struct{}
}

// Start listens and offers the driver to the agent.
func (d *Driver) Start() error {
	d.mu.Lock()
	d.changed = make(chan struct{})
	d.srv = grpc.NewServer()
	d.mu.Unlock()
	registration.RegisterRegistrationServer(d.srv, d)
	claims, health := drav1.DRAPlugin_ServiceDesc, drahealthv1.DRAResourceHealth_ServiceDesc
	if d.Beta {
		claims.ServiceName, health.ServiceName = "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"
	}
	d.srv.RegisterService(&claims, d)
	d.srv.RegisterService(&health, d)
	for _, path := range []string{d.endpoint(), filepath.Join(d.Root, "plugins_registry", d.Name+d.Instance+"-reg.sock")} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.RemoveAll(path)); err != nil {
			return err
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			return err
		}
		go d.srv.Serve(l) //nolint:errcheck // it ends by Stop
	}
	return nil
}

func (d *Driver) endpoint() string {
	return filepath.Join(d.Root, "plugins", d.Name, "dra"+d.Instance+".sock")
}

// Stop ends the driver; its sockets go.
func (d *Driver) Stop() { d.srv.Stop() }

// Break lets calls fail; nil: no longer.
func (d *Driver) Break(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

// Calls tells what the driver was asked, in order: the call and the claim's name.
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// SetHealth tells the agent the health of all devices.
func (d *Driver) SetHealth(list ...*drahealthv1.DeviceHealth) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.health = list
	close(d.changed)
	d.changed = make(chan struct{})
}

// GetInfo implements the registration.
func (d *Driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	versions := []string{drav1.DRAPluginService, drahealthv1.DRAResourceHealthService}
	if d.Beta {
		versions = []string{"v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"}
	}
	return &registration.PluginInfo{Type: registration.DRAPlugin, Name: d.Name, Endpoint: d.endpoint(), SupportedVersions: versions}, nil
}

// NotifyRegistrationStatus implements the registration.
func (d *Driver) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse,
	error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !s.PluginRegistered {
		d.calls = append(d.calls, "refused: "+s.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

func (d *Driver) note(call string, c *drav1.Claim) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, call+" "+c.Name)
	return d.fail
}

// NodePrepareResources implements the driver.
func (d *Driver) NodePrepareResources(_ context.Context, q *drav1.NodePrepareResourcesRequest) (*drav1.NodePrepareResourcesResponse,
	error) {
	res := &drav1.NodePrepareResourcesResponse{Claims: map[string]*drav1.NodePrepareResourceResponse{}}
	for _, c := range q.Claims {
		r := &drav1.NodePrepareResourceResponse{}
		switch err := d.note("prepare", c); {
		case err != nil:
			r.Error = err.Error()
		case d.Devices != nil:
			r.Devices = d.Devices(c)
		default:
			r.Devices = []*drav1.Device{{PoolName: "pool", DeviceName: c.Name, CdiDeviceIds: []string{d.Name + "/class=" + c.Name}}}
		}
		res.Claims[c.Uid] = r
	}
	return res, nil
}

// NodeUnprepareResources implements the driver.
func (d *Driver) NodeUnprepareResources(_ context.Context, q *drav1.NodeUnprepareResourcesRequest) (*drav1.NodeUnprepareResourcesResponse,
	error) {
	res := &drav1.NodeUnprepareResourcesResponse{Claims: map[string]*drav1.NodeUnprepareResourceResponse{}}
	for _, c := range q.Claims {
		r := &drav1.NodeUnprepareResourceResponse{}
		if err := d.note("unprepare", c); err != nil {
			r.Error = err.Error()
		}
		res.Claims[c.Uid] = r
	}
	return res, nil
}

// NodeWatchResources implements the health service.
func (d *Driver) NodeWatchResources(_ *drahealthv1.NodeWatchResourcesRequest,
	s drahealthv1.DRAResourceHealth_NodeWatchResourcesServer) error {
	for {
		d.mu.Lock()
		list, changed := d.health, d.changed
		d.mu.Unlock()
		if err := s.Send(&drahealthv1.NodeWatchResourcesResponse{Devices: list}); err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return nil
		case <-changed:
		}
	}
}
