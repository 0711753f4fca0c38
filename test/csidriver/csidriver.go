// Package csidriver is a CSI driver for tests: it serves the identity and node services at real sockets, registers as a kubelet plugin,
// keeps volumes as directories, and fails as the test wants. It notes every breach of the protocol by the agent.
//
// As root it mounts: a staged volume is its directory, bound; a published one is the staged one, bound. Without root it only keeps
// account.
package csidriver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// What a driver may be able to do.
const (
	Stage      = csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME
	Stats      = csi.NodeServiceCapability_RPC_GET_VOLUME_STATS
	Expand     = csi.NodeServiceCapability_RPC_EXPAND_VOLUME
	MountGroup = csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP
	MultiWrite = csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER
)

// Usual are the capabilities of most drivers.
var Usual = []csi.NodeServiceCapability_RPC_Type{Stage, Stats, Expand}

// Attachment is the name of a volume's attachment to a node.
func Attachment(driver, volume, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(volume+driver+node)))
}

// A Fault changes a call.
type Fault struct {
	Late bool          // the call is carried out before it fails
	Code codes.Code    // of the error; OK: none
	Lie  bool          // it is not carried out, and answered as if it were
	Hang bool          // no answer, until the caller gives up or the fault is lifted
	Do   func()        // called before the answer
	Lift chan struct{} // ends a hang
}

// Config says what the driver is.
type Config struct {
	Name     string // "": test.csi.example.com
	Dir      string // the agent's root directory
	Store    string // where volumes are kept
	Node     string // the node's name to the driver; "": node-1
	Max      int64  // volumes of the node; 0: not said
	Topology map[string]string
	Can      []csi.NodeServiceCapability_RPC_Type
	Mount    bool // mount for real: needs root
	Versions []string
}

// A Driver is one that serves.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	Config
	Told chan *registration.RegistrationStatus

	mu        sync.Mutex
	servers   []*grpc.Server
	fault     func(rpc string) *Fault
	calls     []string
	breaches  []string
	staged    map[string]string // volume → path
	published map[string]string // target → volume
	requests  map[string]any    // the last of each call
	sizes     map[string]int64
}

// New returns a driver that does not serve yet.
func New(cfg Config) *Driver {
	if cfg.Name == "" {
		cfg.Name = "test.csi.example.com"
	}
	if cfg.Node == "" {
		cfg.Node = "node-1"
	}
	if cfg.Versions == nil {
		cfg.Versions = []string{"1.0.0"}
	}
	return &Driver{Config: cfg, Told: make(chan *registration.RegistrationStatus, 100), staged: map[string]string{},
		published: map[string]string{}, requests: map[string]any{}, sizes: map[string]int64{}}
}

// Socket is the path of the driver's own socket.
func (d *Driver) Socket() string { return filepath.Join(d.Dir, "plugins", d.Name, "csi.sock") }

// RegistrationSocket is the path of the socket for the agent.
func (d *Driver) RegistrationSocket() string {
	return filepath.Join(d.Dir, "plugins_registry", d.Name+"-reg.sock")
}

// Start serves at both sockets, the one that it registers at last.
func (d *Driver) Start() error {
	for _, path := range []string{d.Socket(), d.RegistrationSocket()} {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			return err
		}
		srv := grpc.NewServer()
		csi.RegisterIdentityServer(srv, d)
		csi.RegisterNodeServer(srv, d)
		registration.RegisterRegistrationServer(srv, d)
		d.mu.Lock()
		d.servers = append(d.servers, srv)
		d.mu.Unlock()
		go func() { _ = srv.Serve(l) }()
	}
	return nil
}

// Stop ends the driver as a crash does: calls get no answer. What it mounted stays.
func (d *Driver) Stop() {
	d.mu.Lock()
	list := d.servers
	d.servers = nil
	d.mu.Unlock()
	for _, s := range list {
		s.Stop()
	}
}

// Fail sets what becomes of calls from now on; f returns nil for those that go well. nil: all do.
func (d *Driver) Fail(f func(rpc string) *Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// Calls are the calls so far, in their order: name and volume.
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// Request is the last request of a call; nil: there was none.
func (d *Driver) Request(rpc string) any {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.requests[rpc]
}

// Breaches are the breaches of the protocol so far.
func (d *Driver) Breaches() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.breaches)
}

// Left lists volumes that are staged or published.
func (d *Driver) Left() (list []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for v, path := range d.staged {
		list = append(list, "staged "+v+" at "+path)
	}
	for path, v := range d.published {
		list = append(list, "published "+v+" at "+path)
	}
	slices.Sort(list)
	return list
}

// Published counts for how many targets the volume is published.
func (d *Driver) Published(volume string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.published {
		if v == volume {
			n++
		}
	}
	return n
}

// Directory holds the volume's data.
func (d *Driver) Directory(volume string) string { return filepath.Join(d.Store, volume) }

// serve carries out a call with its fault.
func (d *Driver) serve(ctx context.Context, rpc, volume string, req any, do func() error) error {
	d.mu.Lock()
	d.calls = append(d.calls, rpc+" "+volume)
	d.requests[rpc] = req
	var f *Fault
	if d.fault != nil {
		f = d.fault(rpc)
	}
	d.mu.Unlock()
	if f == nil {
		f = &Fault{}
	}
	if f.Lie {
		return nil
	}
	early := !f.Late && (f.Code != codes.OK || f.Hang || f.Do != nil)
	if !early {
		d.mu.Lock()
		err := do()
		d.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if f.Do != nil {
		f.Do()
	}
	if f.Hang {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.Lift:
		case <-time.After(time.Minute):
		}
	}
	if f.Code != codes.OK {
		return status.Error(f.Code, "the test wants "+rpc+" to fail")
	}
	if early {
		d.mu.Lock()
		defer d.mu.Unlock()
		return do()
	}
	return nil
}

// breach notes that the agent did what it must not. d is locked.
func (d *Driver) breach(format string, args ...any) {
	d.breaches = append(d.breaches, fmt.Sprintf(format, args...))
}

func (d *Driver) can(what csi.NodeServiceCapability_RPC_Type) bool {
	return slices.Contains(d.Can, what)
}

// bind mounts a directory on a path.
func (d *Driver) bind(from, to string) error {
	if !d.Mount {
		return os.MkdirAll(to, 0o750)
	}
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	return unix.Mount(from, to, "", unix.MS_BIND, "")
}

// unbind takes down what is mounted on a path, by this driver or by one that died.
func (d *Driver) unbind(path string) error {
	if !d.Mount {
		return nil
	}
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// store makes a volume's directory.
func (d *Driver) store(volume string) (string, error) {
	dir := d.Directory(volume)
	return dir, os.MkdirAll(dir, 0o777)
}

// block says that a request is for a block device.
func block(c *csi.VolumeCapability) bool { return c.GetBlock() != nil }
