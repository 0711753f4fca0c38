// Package deviceplugin is a device plugin for tests (v1beta1): it lists what a test wants, over a real socket, and keeps what it was
// asked.
package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginv1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A Plugin brings one resource. Set the fields before Start; Fail at any time through Break.
type Plugin struct {
	pluginv1.UnimplementedDevicePluginServer
	Dir      string // the agent's directory of device plugins
	Resource string
	Options  *pluginv1.DevicePluginOptions
	// Prefer chooses for GetPreferredAllocation; nil: the last ones by name.
	Prefer func(from, must []string, need int) []string

	mu      sync.Mutex
	list    []*pluginv1.Device
	changed chan struct{}
	fail    error
	calls   []string
	srv     *grpc.Server
}

// Start listens and registers. within bounds the wait for the agent's socket.
func (p *Plugin) Start(ctx context.Context, list ...*pluginv1.Device) error {
	p.mu.Lock()
	p.list, p.changed = list, make(chan struct{})
	p.srv = grpc.NewServer()
	p.mu.Unlock()
	if err := os.Remove(p.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", p.socket())
	if err != nil {
		return err
	}
	pluginv1.RegisterDevicePluginServer(p.srv, p)
	go p.srv.Serve(l) //nolint:errcheck // it ends by Stop
	return Register(ctx, p.Dir, &pluginv1.RegisterRequest{Version: pluginv1.Version, Endpoint: filepath.Base(p.socket()),
		ResourceName: p.Resource, Options: p.Options})
}

// Register tells an agent of a plugin.
func Register(ctx context.Context, dir string, r *pluginv1.RegisterRequest) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = pluginv1.NewRegistrationClient(conn).Register(ctx, r, grpc.WaitForReady(true))
	return err
}

func (p *Plugin) socket() string {
	return filepath.Join(p.Dir, strings.ReplaceAll(p.Resource, "/", "-")+".sock")
}

// Stop ends the plugin, as a crash does.
func (p *Plugin) Stop() { p.srv.Stop() }

// Set lists other devices from now on.
func (p *Plugin) Set(list ...*pluginv1.Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = list
	close(p.changed)
	p.changed = make(chan struct{})
}

// Break lets Allocate and PreStartContainer fail; nil: no longer.
func (p *Plugin) Break(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = err
}

// Calls tells what the plugin was asked, in order: the call and the devices.
func (p *Plugin) Calls() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

func (p *Plugin) note(call string, ids []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids = slices.Sorted(slices.Values(ids))
	p.calls = append(p.calls, fmt.Sprintf("%s %s", call, strings.Join(ids, ",")))
	return p.fail
}

// Devices are healthy devices of the names; one that ends in @N lies on NUMA node N, one that begins with ! is unhealthy.
func Devices(names ...string) (list []*pluginv1.Device) {
	for _, n := range names {
		d := &pluginv1.Device{Health: pluginv1.Healthy}
		n, on, placed := strings.Cut(n, "@")
		if placed {
			d.Topology = &pluginv1.TopologyInfo{Nodes: []*pluginv1.NUMANode{{ID: int64(on[0] - '0')}}}
		}
		if d.ID = n; strings.HasPrefix(n, "!") {
			d.ID, d.Health = n[1:], pluginv1.Unhealthy
		}
		list = append(list, d)
	}
	return list
}

// GetDevicePluginOptions implements the plugin.
func (p *Plugin) GetDevicePluginOptions(context.Context, *pluginv1.Empty) (*pluginv1.DevicePluginOptions, error) {
	return p.Options, nil
}

// ListAndWatch implements the plugin.
func (p *Plugin) ListAndWatch(_ *pluginv1.Empty, s pluginv1.DevicePlugin_ListAndWatchServer) error {
	for {
		p.mu.Lock()
		list, changed := p.list, p.changed
		p.mu.Unlock()
		if err := s.Send(&pluginv1.ListAndWatchResponse{Devices: list}); err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return nil
		case <-changed:
		}
	}
}

// GetPreferredAllocation implements the plugin.
func (p *Plugin) GetPreferredAllocation(_ context.Context, r *pluginv1.PreferredAllocationRequest) (*pluginv1.PreferredAllocationResponse,
	error) {
	res := &pluginv1.PreferredAllocationResponse{}
	for _, q := range r.ContainerRequests {
		ids := slices.Sorted(slices.Values(q.AvailableDeviceIDs))
		ids = ids[max(0, len(ids)-int(q.AllocationSize)):]
		if p.Prefer != nil {
			ids = p.Prefer(q.AvailableDeviceIDs, q.MustIncludeDeviceIDs, int(q.AllocationSize))
		}
		res.ContainerResponses = append(res.ContainerResponses, &pluginv1.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return res, nil
}

// Allocate implements the plugin: each device is /dev/null under its own name, and the container reads which ones it has in DEVICES.
func (p *Plugin) Allocate(_ context.Context, r *pluginv1.AllocateRequest) (*pluginv1.AllocateResponse, error) {
	res := &pluginv1.AllocateResponse{}
	for _, q := range r.ContainerRequests {
		if err := p.note("Allocate", q.DevicesIds); err != nil {
			return nil, err
		}
		ids := slices.Sorted(slices.Values(q.DevicesIds))
		c := &pluginv1.ContainerAllocateResponse{Envs: map[string]string{"DEVICES": strings.Join(ids, ",")},
			Annotations: map[string]string{p.Resource: strings.Join(ids, ",")}}
		for _, id := range ids {
			c.Devices = append(c.Devices, &pluginv1.DeviceSpec{HostPath: "/dev/null", ContainerPath: "/dev/" + id, Permissions: "rw"})
		}
		res.ContainerResponses = append(res.ContainerResponses, c)
	}
	return res, nil
}

// PreStartContainer implements the plugin.
func (p *Plugin) PreStartContainer(_ context.Context, r *pluginv1.PreStartContainerRequest) (*pluginv1.PreStartContainerResponse, error) {
	return &pluginv1.PreStartContainerResponse{}, p.note("PreStart", r.DevicesIds)
}
