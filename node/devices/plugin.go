package devices

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	pluginv1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// How long a plugin may take to answer. A start that fails by it is tried again.
const (
	askWithin      = 10 * time.Second // for what it should know by heart
	allocateWithin = 60 * time.Second
	prepareWithin  = pluginv1.KubeletPreStartContainerRPCTimeoutInSecs * time.Second
)

// maxList bounds what a plugin lists at once, in bytes: some hundred thousand devices.
const maxList = 16 << 20

// A plugin is a connection to a device plugin, from its registration to its end.
type plugin struct {
	resource string
	socket   string
	options  *pluginv1.DevicePluginOptions
	conn     *grpc.ClientConn
	api      pluginv1.DevicePluginClient
	stop     context.CancelFunc
}

// dial returns the plugin that listens on a socket. It connects when it is first asked something.
func dial(resource, socket string, options *pluginv1.DevicePluginOptions) (*plugin, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxList)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}}))
	if err != nil {
		return nil, fmt.Errorf("connect to the device plugin of %s at %s: %w", resource, socket, err)
	}
	return &plugin{resource: resource, socket: socket, options: options, conn: conn, api: pluginv1.NewDevicePluginClient(conn)}, nil
}

// follow gives the stock all that the plugin lists, until the plugin or ctx ends.
func (p *plugin) follow(ctx context.Context, s *Stock) error {
	defer p.conn.Close()
	defer func() {
		if ctx.Err() == nil { // else this agent ends, or another took its place
			s.lost(p)
		}
	}()
	if p.options == nil {
		asked, cancel := context.WithTimeout(ctx, askWithin)
		o, err := p.api.GetDevicePluginOptions(asked, &pluginv1.Empty{}, grpc.WaitForReady(true))
		cancel()
		if err != nil {
			return fmt.Errorf("ask the device plugin of %s for its options: %w", p.resource, err)
		}
		s.mu.Lock()
		p.options = o
		s.mu.Unlock()
	}
	stream, err := p.api.ListAndWatch(ctx, &pluginv1.Empty{})
	if err != nil {
		return fmt.Errorf("list the devices of %s: %w", p.resource, err)
	}
	for {
		list, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("list the devices of %s: %w", p.resource, err)
		}
		s.listed(p, list.Devices)
	}
}
