// Package runtime finds a container runtime for a node, or starts and supervises one of its own: containerd with
// its own directories, sockets, networks and cgroups, so that several nodes live side by side on one machine,
// each in a network namespace.
package runtime

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Config says where a node's runtime lives.
type Config struct {
	Socket  string // of a running CRI runtime to use as it is; "": start containerd
	Dir     string // everything that the own containerd keeps: images, state, sockets, networks
	Foreign bool   // the pod network is somebody else's: CNI configuration and plugins lie in the standard directories
	Log     *slog.Logger

	SystemdCgroup bool // systemd makes the containers' cgroups

	Registries *Registries // where images come from; nil: as the files in hostsDir say, or from where their names say
}

// registries is the directory of hosts.toml files that containerd reads.
func (c Config) registries() string {
	if c.Registries == nil {
		return hostsDir
	}
	return filepath.Join(c.Dir, "certs.d")
}

// foreignPlugins has the network plugins that users install.
const foreignPlugins = "/opt/cni/bin"

// foreignConf has the CNI configuration of such plugins. A variable for tests.
var foreignConf = "/etc/cni/net.d"

// CNIDir is the directory of the CNI configuration of a containerd of one's own.
func (c Config) CNIDir() string {
	if c.Foreign {
		return foreignConf
	}
	return filepath.Dir(c.OwnConfig())
}

// OwnConfig is the file of the CNI configuration of kloop's own pod network. A runtime that runs already looks for it in the standard
// directory, where the first by name counts: before those that distributions bring with theirs.
func (c Config) OwnConfig() string {
	if c.Socket != "" {
		return filepath.Join(foreignConf, "05-kloop.conflist")
	}
	return filepath.Join(c.Dir, "cni/conf/10-kloop.conflist")
}

// FormerConfig is the file that OwnConfig was while the node of this directory had a runtime of the other sort, its own or one that ran
// already; "": none is left. The other runtime would go on connecting pods by it.
func (c Config) FormerConfig() string {
	other := Config{Dir: c.Dir}
	if c.Socket == "" {
		other.Socket = "another"
	}
	text, err := os.ReadFile(other.OwnConfig())
	if err != nil || !bytes.Contains(text, []byte(c.IPAMDir()+`"`)) {
		return ""
	}
	return other.OwnConfig()
}

// IPAMDir holds what the plugin host-local remembers: which addresses are given out.
func (c Config) IPAMDir() string { return filepath.Join(c.Dir, "cni/ipam") }

// Available says whether a runtime can be started here, and if not, why and what to do.
func Available(cfg Config) error {
	if cfg.Socket != "" {
		if _, err := os.Stat(cfg.Socket); err != nil {
			return fmt.Errorf("use the runtime at %s: %w", cfg.Socket, err)
		}
		return nil
	}
	if os.Getuid() != 0 {
		return errors.New("a node runs containers, and that needs root: sudo, or rootlesskit as docs/operations.md has it (Without " +
			"root); --node none runs none, --sim-nodes N simulated ones")
	}
	for _, program := range []string{"containerd", "runc", "ctr"} {
		if _, err := exec.LookPath(program); err != nil {
			return missing(program)
		}
	}
	if _, err := cniPlugins(); err != nil {
		return err
	}
	return nil
}

// cniPlugins is the directory of the network plugins.
func cniPlugins() (string, error) {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} {
		if _, err := os.Stat(filepath.Join(dir, "bridge")); err == nil {
			return dir, nil
		}
	}
	return "", missing("CNI plugins in /usr/lib/cni, /opt/cni/bin or /usr/libexec/cni")
}

// A Runtime is a connection to a CRI runtime. Safe for concurrent use.
type Runtime struct {
	Containers cri.RuntimeServiceClient
	Images     cri.ImageServiceClient
	PauseImage string
	Name       string // as it calls itself; "": containerd

	socket  string
	conn    *grpc.ClientConn
	observe atomic.Pointer[func(method string, took time.Duration, err error)]
}

// Observe has every call told to f, with gRPC's name of its method, how long it took and what became of it. f must not block.
func (r *Runtime) Observe(f func(method string, took time.Duration, err error)) { r.observe.Store(&f) }

// answersWithin bounds how long the runtime may take for a call, as the kubelet's runtimeRequestTimeout: one that hangs holds up nobody
// for ever.
const answersWithin = 2 * time.Minute

// within is the bound of a call; 0: it takes as long as it takes.
func within(req any) time.Duration {
	switch q := req.(type) {
	case *cri.PullImageRequest:
		return 0
	case *cri.StopContainerRequest:
		return answersWithin + time.Duration(min(max(q.Timeout, 0), math.MaxInt32))*time.Second
	case *cri.ExecSyncRequest:
		if q.Timeout <= 0 {
			return 0
		}
		return answersWithin + time.Duration(min(q.Timeout, math.MaxInt32))*time.Second
	case *cri.RunPodSandboxRequest:
		return 2 * answersWithin // its image may have to be pulled
	}
	return answersWithin
}

// timed bounds a call, and tells of it.
func (r *Runtime) timed(ctx context.Context, method string, req, res any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
	opts ...grpc.CallOption) error {
	if d := within(req); d > 0 {
		bound, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		ctx = bound
	}
	began := time.Now()
	err := call(ctx, method, req, res, conn, opts...)
	if f := r.observe.Load(); f != nil {
		(*f)(method, time.Since(began), err)
	}
	return err
}

// maxMessage bounds one CRI answer; a list of a few thousand containers is a few megabytes.
const maxMessage = 32 << 20

// Connect opens a connection to the CRI socket and waits until the runtime answers.
func Connect(ctx context.Context, socket string) (*Runtime, error) {
	r := &Runtime{socket: socket}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(r.timed),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}}))
	if err != nil {
		return nil, fmt.Errorf("connect to the runtime at %s: %w", socket, err)
	}
	r.conn, r.Containers, r.Images = conn, cri.NewRuntimeServiceClient(conn), cri.NewImageServiceClient(conn)
	if err := r.awake(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("ask the runtime at %s for its version: %w", socket, err), conn.Close())
	}
	return r, nil
}

// awake waits until the runtime answers. A containerd listens before it has found its running containers again, and
// says until then that it is not initialized.
func (r *Runtime) awake(ctx context.Context) error {
	const between = 20 * time.Millisecond
	for {
		v, err := r.Containers.Version(ctx, &cri.VersionRequest{}, grpc.WaitForReady(true))
		r.Name = v.GetRuntimeName()
		slow := status.Code(err) == codes.DeadlineExceeded || strings.Contains(status.Convert(err).Message(), "not initialized")
		if err == nil || !slow {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(between):
		}
	}
}

// ContainerID returns the name of a container in statuses: NAME://ID.
func (r *Runtime) ContainerID(id string) string { return cmp.Or(r.Name, "containerd") + "://" + id }

// The cgroup drivers: who makes the cgroups of containers.
const (
	Cgroupfs = "cgroupfs" // whoever needs them
	Systemd  = "systemd"
)

// CgroupDriver says who makes the cgroups of a node, by the setting and by what its runtime tells (KubeletCgroupDriverFromCRI): the two
// must agree, since a runtime that goes by systemd takes no other's, and systemd takes them away. ask is the setting; "": as the
// runtime has it, and cgroupfs where that does not tell.
func (r *Runtime) CgroupDriver(ctx context.Context, ask string) (string, error) {
	told := r.toldDriver(ctx)
	if ask == "" || told == "" || ask == told {
		return cmp.Or(ask, told, Cgroupfs), nil
	}
	return "", fmt.Errorf("the runtime at %s makes cgroups by %s, and node.cgroupDriver is %s: leave that out, or set SystemdCgroup = %t "+
		"in the runtime's configuration (cgroup_manager = %q in CRI-O's)", r.socket, told, ask, ask == Systemd, ask)
}

// toldDriver is the runtime's driver of cgroups. It tells that in an answer of its own, or, as containerd 1, in its configuration.
func (r *Runtime) toldDriver(ctx context.Context) string {
	if res, err := r.Containers.RuntimeConfig(ctx, &cri.RuntimeConfigRequest{}); err == nil && res.GetLinux() != nil {
		return strings.ToLower(res.Linux.CgroupDriver.String())
	}
	var c struct {
		Containerd struct {
			DefaultRuntimeName string
			Runtimes           map[string]struct{ Options struct{ SystemdCgroup *bool } }
		}
	}
	res, err := r.Containers.Status(ctx, &cri.StatusRequest{Verbose: true})
	if err != nil || json.Unmarshal([]byte(res.Info["config"]), &c) != nil {
		return ""
	}
	switch by := c.Containerd.Runtimes[c.Containerd.DefaultRuntimeName].Options.SystemdCgroup; {
	case by == nil:
		return ""
	case *by:
		return Systemd
	}
	return Cgroupfs
}

// Close closes the connection; containers run on.
func (r *Runtime) Close() error { return r.conn.Close() }
