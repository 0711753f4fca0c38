// Package machine makes the machine that it runs on a node: it puts together the container runtime, the agent and the node's loops, in the
// order in which they start. Here does so in the process of a cluster, Run in one of its own, over HTTP.
//
// It stands above cluster, which does not know it: the control plane runs where no node can.
package machine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/netpolicy"
	"github.com/kloop-dev/kloop/node"
	"github.com/kloop-dev/kloop/node/meter"
	"github.com/kloop-dev/kloop/node/rootdir"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/node/serve"
)

// Config says what a node is: in the cluster's own process or in one of its own.
type Config struct {
	Name      string
	Address   netip.Addr
	Second    netip.Addr // of the other family; zero: none
	Port      int        // of the agent's API; 0: 10250
	Dir       string     // the agent's root directory, as package node/rootdir has it
	Former    string     // where an earlier agent worked; "": nowhere else
	StaticDir string
	Storage   string // directory of local storage, beside Dir; "": the node offers none
	Runtime   runtime.Config
	Serving   interface { // the certificate of the agent's API
		Server(*tls.ClientHelloInfo) (*tls.Certificate, error)
	}
	Callers     func() *x509.CertPool // who signs the certificates of those who call the agent
	Client      client.Client
	Pins        node.Pins // keeps ConfigMaps and Secrets for Client; nil: it has all of them
	ProxyClient client.Client
	Events      *client.Recorder
	Meter       *meter.Meter // counts what the agent does; nil: one of its own
	Loops       *loop.Watchers
	Beat        time.Duration  // between two renewals of the node's lease; 0: 10 s
	Proxy       bool           // program the services of the cluster into this network namespace
	Services    []netip.Prefix // ranges of cluster IPs; none: 10.96.0.0/16
	DNS         cluster.ClusterDNS
	NoPolicies  bool // as in cluster.Config
	Pressure    cluster.Pressure
	Resources   cluster.NodeResources
	Images      cluster.NodeImages
	Shutdown    cluster.NodeShutdown
	LogQuery    bool // as NodeLogQuery in cluster.Config
	Topology    cluster.NodeTopology
	PodCIDRs    []netip.Prefix // that the Node registers with; none: the cluster gives it some
	Network     string         // as in cluster.Config
	policies    *netpolicy.Enforcer
	// whole returns a client that reads all that network policies are judged by; nil: ProxyClient does.
	whole func(context.Context) (client.Client, error)

	ProxyMode, ProxyScheduler string // as in cluster.Config
	IPVS                      cluster.IPVS
	NodePortAddresses         []string // as in cluster.Config
	Log                       *slog.Logger
}

func (n Config) log() *slog.Logger {
	if n.Log == nil {
		return slog.Default()
	}
	return n.Log
}

// settle makes the node's directories absolute: containerd, its shims and the mounts of containers do not know where kloop was started.
func (n *Config) settle() error {
	for _, dir := range []*string{&n.Dir, &n.Former, &n.Runtime.Dir, &n.StaticDir, &n.Storage, &n.Runtime.Socket} {
		if *dir == "" {
			continue
		}
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("find the node's directory: %w", err)
		}
		*dir = abs
	}
	return nil
}

// parts are the parts of a node, in the order in which they start.
func (n Config) parts() ([]cluster.Part, error) {
	n.Log = n.log()
	settings := cluster.Config{ProxyMode: n.ProxyMode, ProxyScheduler: n.ProxyScheduler, IPVS: n.IPVS, ServiceCIDRs: n.Services, DNS: n.DNS,
		NodePortAddresses: n.NodePortAddresses, Network: n.Network, Pressure: n.Pressure}
	if err := settings.CheckNode(); err != nil {
		return nil, err
	}
	if n.Port == 0 {
		n.Port = 10250
	}
	if err := n.settle(); err != nil {
		return nil, err
	}
	if !n.NoPolicies {
		n.policies = netpolicy.New(netpolicy.Config{Client: n.ProxyClient, Cluster: n.whole, Node: n.Name, Log: n.Log})
	}
	n.Runtime.Foreign, n.Runtime.SystemdCgroup = n.Network == cluster.NetworkNone, n.Resources.CgroupDriver == runtime.Systemd
	if err := images(n.Images, &node.Config{}, &n.Runtime); err != nil {
		return nil, err
	}
	api, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(n.Port))) // last: nobody closes it when something else is wrong
	if err != nil {
		return nil, fmt.Errorf("%w: %w", cluster.ErrAgentPort, err)
	}
	socket := n.Runtime.Socket
	var list []cluster.Part
	if socket == "" {
		own := runtime.New(n.Runtime)
		socket = own.Socket()
		list = append(list, cluster.Part{Name: "containerd", Run: own.Run})
	}
	list = append(list, cluster.Part{Name: "node", Run: func(ctx context.Context, ready func()) error {
		return n.runAgent(ctx, ready, socket, api)
	}})
	for _, l := range nodeLoops(n) {
		if l.on {
			list = append(list, cluster.Part{Name: l.name, Run: l.run})
		}
	}
	return list, nil
}

// runAgent runs the node's agent on a runtime until ctx ends.
func (n Config) runAgent(ctx context.Context, ready func(), socket string, api net.Listener) error {
	rt, err := runtime.Connect(ctx, socket)
	if err != nil {
		return err
	}
	defer rt.Close()
	driver, err := rt.CgroupDriver(ctx, n.Resources.CgroupDriver)
	if err != nil {
		return err
	}
	dir, release, err := rootdir.Open(n.Dir, n.Former, n.log())
	if err != nil {
		return err
	}
	defer release()
	n.Dir = dir
	cfg, err := n.agent(rt)
	if err != nil {
		return err
	}
	if cfg.SystemdCgroup = driver == runtime.Systemd; cfg.SystemdCgroup && !systemdRuns() {
		return errors.New("cgroupDriver systemd: systemd does not run this machine; set the runtime to cgroupfs, and node.cgroupDriver too")
	}
	agent := node.New(cfg)
	served := make(chan error, 1)
	sctx, stop := context.WithCancel(ctx)
	go func() {
		served <- agent.Serve(sctx, api, serve.Config{Node: n.Name, Client: n.Client, ClientCA: n.Callers,
			SystemLogs: "/var/log", SystemLogQuery: n.LogQuery, Log: n.Log})
	}()
	ready()
	err = agent.Run(ctx, loop.Env{Client: n.Client, Log: n.Log, Events: n.Events, Watch: n.Loops, Trail: true})
	stop()
	return errors.Join(err, <-served)
}

// systemdRuns says whether systemd is the machine's first process.
func systemdRuns() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

// agent configures the node's agent.
func (n Config) agent(rt *runtime.Runtime) (node.Config, error) {
	cfg := node.Config{Name: n.Name, Client: n.Client, Pins: n.Pins, Events: n.Events, Runtime: rt, Log: n.Log, Dir: n.Dir,
		StaticDir: n.StaticDir, Address: n.Address, Second: n.Second, Port: n.Port, Serving: n.Serving.Server, Beat: n.Beat, Plugins: true,
		Meter: n.Meter,
		DNS:   n.DNS.Server(n.Services).Cluster, Domain: n.DNS.Domain}
	if cfg.OwnNetwork = n.ownNetwork(); cfg.OwnNetwork {
		cfg.PodCIDRs = n.PodCIDRs
	}
	if n.policies != nil {
		cfg.Policies = n.policies
	}
	err := errors.Join(reserve(n.Resources, &cfg), images(n.Images, &cfg, new(runtime.Config)), linger(n.Shutdown, &cfg),
		place(n.Topology, &cfg))
	if err != nil {
		return cfg, err
	}
	cfg.EvictionMaxGrace, cfg.EvictionTransition = int64(n.Pressure.EvictionMaxPodGracePeriod), n.Pressure.EvictionTransition
	cfg.Eviction, cfg.ImageGCHigh, cfg.ImageGCLow, err = n.Pressure.Limits()
	return cfg, err
}
