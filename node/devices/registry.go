package devices

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	pluginv1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/node/plugins"
)

// maxResources bounds how many resources plugins may bring to a node.
const maxResources = 1000

// registry is the service Registration, by which plugins say that they are there.
type registry struct {
	pluginv1.UnimplementedRegistrationServer
	stock *Stock
	ctx   context.Context // of Run: plugins are followed until it ends
	wg    *sync.WaitGroup
}

// Run answers plugins that register until ctx ends. They are followed until then, and keep what they gave.
func (s *Stock) Run(ctx context.Context) error {
	if err := os.MkdirAll(s.cfg.dir(), 0o750); err != nil {
		return fmt.Errorf("make the directory of device plugins: %w", err)
	}
	if err := removeSockets(s.cfg.dir()); err != nil {
		return err
	}
	// Plugins wait for this socket to be made anew: it tells them to register again.
	l, err := net.Listen("unix", filepath.Join(s.cfg.dir(), filepath.Base(pluginv1.KubeletSocket)))
	if err != nil {
		return fmt.Errorf("listen for device plugins: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer s.hush()
	defer wg.Wait()
	defer stop()
	srv := grpc.NewServer(grpc.MaxConcurrentStreams(100))
	pluginv1.RegisterRegistrationServer(srv, &registry{stock: s, ctx: ctx, wg: &wg})
	wg.Go(func() {
		<-ctx.Done()
		srv.Stop()
	})
	s.await()
	if err := srv.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("answer device plugins: %w", err)
	}
	return nil
}

// hush stops what would happen later.
func (s *Stock) hush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sup := range s.of {
		if sup.late != nil {
			sup.late.Stop()
		}
	}
}

// await begins the patience with the plugins of the last agent's time.
func (s *Stock) await() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, sup := range s.of {
		if sup.plugin == nil && sup.late == nil {
			sup.late = s.expire(name)
		}
	}
}

// removeSockets removes what plugins of an earlier agent left: they make their sockets anew.
func removeSockets(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for sockets of device plugins: %w", err)
	}
	for _, e := range list {
		if e.Type()&fs.ModeSocket == 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the socket of a device plugin: %w", err)
		}
	}
	return nil
}

// Register takes a plugin into the stock; one that had the resource before is followed no longer.
func (r *registry) Register(_ context.Context, q *pluginv1.RegisterRequest) (*pluginv1.Empty, error) {
	if filepath.Base(q.Endpoint) != q.Endpoint || q.Endpoint == "." || q.Endpoint == ".." {
		return nil, status.Errorf(codes.InvalidArgument, "the endpoint %q is not the name of a socket in %s", q.Endpoint, r.stock.cfg.dir())
	}
	err := r.stock.Follow(r.ctx, r.wg, Plugin{Resource: q.ResourceName, Socket: filepath.Join(r.stock.cfg.dir(), q.Endpoint),
		Versions: []string{q.Version}, Options: q.Options})
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &pluginv1.Empty{}, nil
}

// Handler takes up device plugins that register as other plugins of the agent do.
func (s *Stock) Handler() plugins.Handler { return &handler{s} }

type handler struct{ stock *Stock }

// Register implements plugins.Handler. The plugin is followed as long as its registration's socket is there.
func (h *handler) Register(ctx context.Context, p plugins.Plugin) error {
	return h.stock.Follow(ctx, &h.stock.guests, Plugin{Resource: p.Name, Socket: p.Endpoint, Versions: p.Versions})
}

// Deregister implements plugins.Handler.
func (h *handler) Deregister(q plugins.Plugin) {
	h.stock.mu.Lock()
	var p *plugin
	if sup := h.stock.of[q.Name]; sup != nil && sup.plugin != nil && sup.plugin.socket == q.Endpoint {
		p = sup.plugin
	}
	h.stock.mu.Unlock()
	if p != nil {
		p.stop()
		h.stock.lost(p)
	}
}

// A Plugin describes a device plugin in its own words.
type Plugin struct {
	Resource string
	Socket   string                        // absolute
	Versions []string                      // of the API that it speaks
	Options  *pluginv1.DevicePluginOptions // nil: it is asked
}

// Follow follows a plugin until ctx ends, on a goroutine of wg. It refuses one that this stock can't talk to, or a name that is no
// extended resource.
func (s *Stock) Follow(ctx context.Context, wg *sync.WaitGroup, q Plugin) error {
	if !slices.Contains(q.Versions, pluginv1.Version) {
		return fmt.Errorf("requested API version %q is not supported by kubelet. Supported version is %q", strings.Join(q.Versions, ", "),
			pluginv1.SupportedVersions)
	}
	if !podspec.IsExtendedResource(corev1.ResourceName(q.Resource)) {
		return fmt.Errorf("the ResourceName %q is invalid", q.Resource)
	}
	p, err := dial(q.Resource, q.Socket, q.Options)
	if err != nil {
		return err
	}
	ctx, p.stop = context.WithCancel(ctx)
	s.mu.Lock()
	sup := s.of[q.Resource]
	if sup == nil {
		if len(s.of) >= maxResources {
			s.mu.Unlock()
			p.stop()
			return errors.Join(fmt.Errorf("this node has %d resources of device plugins, and takes no more", maxResources), p.conn.Close())
		}
		sup = &supply{}
		s.of[q.Resource] = sup
	}
	if sup.plugin != nil {
		sup.plugin.stop()
	}
	if sup.late != nil {
		sup.late.Stop()
		sup.late = nil
	}
	sup.plugin = p
	s.mu.Unlock()
	s.log.Info("a device plugin registered", "object", q.Resource, "socket", q.Socket)
	wg.Go(func() {
		defer p.stop()
		if err := p.follow(ctx, s); err != nil && ctx.Err() == nil {
			s.log.Warn("a device plugin is gone", "err", err)
		}
	})
	return nil
}
