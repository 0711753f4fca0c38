package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authn"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/strict"
)

// A Cluster is a running process's worth of Kubernetes.
type Cluster struct {
	cfg   Config
	keys  *pki.PKI
	cred  trust
	seen  *authn.Certs
	door  *frontDoor
	files []*followed // read again when they change

	storage *storage

	elsewhere far            // nil: what is explained is this cluster
	name      string         // that it stands for election with
	Loops     *loop.Watchers // why keys are not at rest
	figures   loop.Figures   // what loops count

	nodeless error // why NodeAuto found this machine unfit

	address string // host:port that clients reach
	stop    context.CancelFunc
	done    chan struct{}
	err     error
}

// Start runs a cluster and returns when its API answers and its loops run. It stops when ctx ends, when Stop is
// called, or when a part can't go on; Wait tells.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, strict.Refuse(err)
	}
	if err := cfg.CheckFiles(); err != nil {
		return nil, err
	}
	if err := CheckFormat(cfg.DataDir); cfg.DataDir != "" && err != nil {
		return nil, err
	}
	cfg.tellIdle(cfg.Log)
	c := &Cluster{cfg: cfg, storage: &storage{cfg: cfg}, name: Identity(), Loops: &loop.Watchers{}, done: make(chan struct{})}
	ctx, c.stop = context.WithCancel(ctx)
	if cfg.Explains != nil {
		if c.elsewhere, err = cfg.Explains.open(cfg.Log); err != nil {
			c.stop()
			return nil, err
		}
	}
	started := make(chan struct{})
	parts, err := c.parts(ctx)
	if err != nil {
		c.stop()
		return nil, err
	}
	go func() {
		defer close(c.done)
		c.err = RunParts(ctx, cfg.Log, sync.OnceFunc(func() { close(started) }), parts...)
	}()
	select {
	case <-started:
		return c, nil
	case <-c.done:
		c.stop()
		if c.err == nil {
			c.err = context.Cause(ctx)
		}
		return nil, c.err
	}
}

// Stop ends the cluster and waits until it has ended.
func (c *Cluster) Stop() error {
	c.stop()
	return c.Wait()
}

// Wait waits until the cluster has ended and says why, unless it was asked to.
func (c *Cluster) Wait() error {
	<-c.done
	return c.err
}

// Nodeless says why this machine did not become a node although NodeAuto would have it; nil when it did, or when
// nobody asked.
func (c *Cluster) Nodeless() error { return c.nodeless }

// parts lists what runs, in the order in which it starts. Where it can't be listed, what was opened for it is closed.
func (c *Cluster) parts(ctx context.Context) (list []part, err error) {
	var opened []io.Closer
	defer func() {
		for i := len(opened) - 1; i >= 0 && err != nil; i-- {
			err = errors.Join(err, opened[i].Close())
		}
	}()
	listener, err := net.Listen("tcp", c.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for the API: %w", err)
	}
	opened = append(opened, listener)
	c.address = reachable(listener.Addr().(*net.TCPAddr))
	st, err := openStore(ctx, c)
	if err != nil {
		return nil, err
	}
	opened = append(opened, st)
	if c.door, err = newFrontDoor(c, st); err != nil {
		return nil, strict.Refuse(err)
	}
	list = append(serving(c, listener), occasional(c)...)
	if !c.cfg.NoLoops {
		if c.door.meter != nil {
			list = append(list, part{"metrics", c.door.measure})
		}
		loops, err := c.loops() // also when they are elected, so that a wrong configuration fails now
		if err != nil {
			return nil, strict.Refuse(err)
		}
		if c.storage.shared() {
			loops = []part{c.elected(c.loops)}
		}
		list = append(list, loops...)
	}
	nodes, err := c.nodes()
	if err != nil {
		return nil, err
	}
	return append(append(list, nodes...), c.cfg.leave(c.door.handler)), nil // the first to hear of the end
}

// openStore opens the store, for which it needs the keys and the credentials of the cluster.
func openStore(ctx context.Context, c *Cluster) (st store.Store, err error) {
	if err := c.storage.joinKeys(ctx); err != nil {
		return nil, err
	}
	if c.keys, err = c.openKeys(); err != nil {
		return nil, err
	}
	c.storage.keys = c.keys
	if err = c.credentials(); err != nil {
		return nil, strict.Refuse(err)
	}
	if st, err = c.storage.openStore(ctx); err != nil {
		return nil, err
	}
	if st, err = c.encrypted(st); err != nil {
		return nil, strict.Refuse(err)
	}
	return st, nil
}

// serving are the parts that every API server has.
func serving(c *Cluster, listener net.Listener) []part {
	return []part{
		{"socket", func(ctx context.Context, ready func()) error {
			ready()
			<-ctx.Done()
			_ = listener.Close() // the API has closed it already, unless it never came to run
			return nil
		}},
		{"store", c.door.keepStore},
		{"format", noting(c.cfg.DataDir)},
		{"files", c.keepFiles},
		{"view", c.door.follow},
		{"bootstrap", c.door.bootstrap},
		{"definitions", c.door.define},
		{"hosts", c.door.tellHosts},
		{"repair", c.door.repair},
		{"groups", c.door.register},
		{"audit", c.door.keepAudit},
		{"convergence", c.door.look},
		{"token tracking", c.door.trackTokens},
		{"trail", c.door.remember},
		{"history", c.door.past.keep},
		{"api", func(ctx context.Context, ready func()) error { return c.door.serve(ctx, listener, ready) }},
		{"events", c.door.record},
		{"kubeconfig", c.keepKubeconfig},
		{"certificates", c.door.certs.keepIssued},
		ClockPart(c.Loops),
	}
}

// occasional are the parts of a server that is one of several, that explains what has not converged, or that keeps snapshots.
func occasional(c *Cluster) (list []part) {
	if c.storage.shared() {
		list = append(list, part{"leadership", c.storage.handOver}, part{"presence", c.door.stay})
		if !c.cfg.NoConvergence {
			list = append(list, part{"reports", c.door.tellOthers})
		}
	}
	if c.door.unwell != nil {
		list = append(list, part{"self-check", c.door.unwell.run})
	}
	if c.storage.etcd != nil && c.cfg.Snapshots.Every > 0 {
		list = append(list, part{"snapshots", c.storage.snapshots})
	}
	return list
}

// openKeys loads or makes the certificates.
func (c *Cluster) openKeys() (*pki.PKI, error) {
	dir := ""
	if c.cfg.DataDir != "" {
		dir = filepath.Join(c.cfg.DataDir, "pki")
	}
	host, _, err := net.SplitHostPort(c.address)
	if err != nil {
		return nil, err
	}
	hosts := append([]string{host}, c.cfg.Hosts...)
	if c.cfg.Advertise.IsValid() {
		hosts = append(hosts, c.cfg.Advertise.String())
	}
	if first, second, err := hostAddresses(c.cfg.ServiceCIDRs); err == nil {
		hosts = append(hosts, hostsOf("localhost", first, second)...)
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	var first net.IP // of the Service kubernetes
	if len(c.cfg.ServiceCIDRs) > 0 {
		first = c.cfg.ServiceCIDRs[0].Masked().Addr().Next().AsSlice()
	}
	return pki.Open(pki.Config{Dir: dir, Hosts: hosts, ServiceIP: first})
}

// certificate returns the API's serving certificate: the configuration's, or one of the cluster's own authority.
func (c *Cluster) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello != nil && hello.ServerName == joinHost {
		return c.storage.joinCertificate(), nil
	}
	if own := c.cred.serving.Load(); own != nil {
		return own, nil
	}
	return c.keys.GetCertificate(hello)
}

// reachable is the address that clients on this machine use.
func reachable(a *net.TCPAddr) string {
	if a.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", fmt.Sprint(a.Port))
	}
	return a.String()
}

// advertised returns the address at which pods reach the API: where it listens, or the machine's own address when that is everywhere or
// the loopback, which no pod can reach. A machine without another address has none.
func (c *Cluster) advertised() []netip.AddrPort {
	at, err := netip.ParseAddrPort(c.address)
	if err != nil {
		return nil
	}
	if c.cfg.Advertise.IsValid() {
		return []netip.AddrPort{netip.AddrPortFrom(c.cfg.Advertise, at.Port())}
	}
	if at.Addr().IsLoopback() {
		host, _, err := hostAddresses(c.cfg.ServiceCIDRs)
		if err != nil || host.IsLoopback() {
			return nil
		}
		at = netip.AddrPortFrom(host, at.Port())
	}
	return []netip.AddrPort{at}
}

// Compact has what is in memory take less of it. It is for when a burst of work is over.
func (c *Cluster) Compact() { c.door.view.Compact() }

// URL returns the address of the API.
func (c *Cluster) URL() string { return "https://" + c.address }

// adminLife is the time for which the administrator's certificate is good.
const adminLife = 365 * 24 * time.Hour

// Kubeconfig makes a kubeconfig with a fresh client certificate for the user.
func (c *Cluster) Kubeconfig(user string, groups ...string) ([]byte, error) {
	cert, key, err := c.keys.CA.Issue(pki.Leaf{User: user, Groups: groups, Client: true, Life: adminLife}, time.Now())
	if err != nil {
		return nil, err
	}
	return pki.Kubeconfig(c.URL(), c.cred.root(), cert, key), nil
}

// Rest returns the configuration of a client-go client that acts as the administrator.
func (c *Cluster) Rest() (*rest.Config, error) {
	cert, key, err := c.keys.CA.Issue(pki.Leaf{User: "kubernetes-admin", Groups: []string{auth.GroupMasters}, Client: true}, time.Now())
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: c.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: c.cred.root(), CertData: cert, KeyData: key}}, nil
}

// Client returns a client in this process that acts as the administrator.
func (c *Cluster) Client() client.Client { return As(c, "kloop") }

// As returns a cluster's Client for a manager of that name, which owns the fields that it writes.
func As(c *Cluster, manager string) client.Client {
	return c.door.local(&auth.User{Name: "kubernetes-admin", Groups: []string{auth.GroupMasters, auth.GroupAuthenticated}}, manager)
}

func (c *Cluster) keepKubeconfig(ctx context.Context, ready func()) error {
	if err := c.writeKubeconfig(); err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	return nil
}

// writeKubeconfig writes the administrator's kubeconfig, with a new certificate.
func (c *Cluster) writeKubeconfig() error {
	paths := []string{c.cfg.Kubeconfig}
	if c.cfg.DataDir != "" {
		paths = append(paths, filepath.Join(c.cfg.DataDir, "admin.kubeconfig"))
	}
	data, err := c.Kubeconfig("kubernetes-admin", auth.GroupMasters)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if path == "" {
			continue
		}
		err := writeFile(path, data)
		if _, there := os.Stat(path); errors.Is(err, syscall.ENOSPC) && there == nil {
			c.cfg.Log.Warn("the disk is full: the kubeconfig of an earlier start stays", "file", path)
		} else if err != nil {
			return fmt.Errorf("write the kubeconfig: %w", err)
		}
	}
	return nil
}

// writeFile replaces the file in one step: a reader sees the old or the new one.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		_ = os.Remove(tmp) // what is there of it
		return err
	}
	return os.Rename(tmp, path)
}

// KubeconfigPath names the file with the administrator's kubeconfig; "" when nowhere.
func (c *Cluster) KubeconfigPath() string {
	switch {
	case c.cfg.Kubeconfig != "":
		return c.cfg.Kubeconfig
	case c.cfg.DataDir != "":
		return filepath.Join(c.cfg.DataDir, "admin.kubeconfig")
	}
	return ""
}
