package cluster

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

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/netpolicy"
	"github.com/kloop-dev/kloop/node"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/node/serve"
	"github.com/kloop-dev/kloop/podnetwork"
)

// NodeConfig says what a node is: in the cluster's own process or in one of its own.
type NodeConfig struct {
	Name      string
	Address   netip.Addr
	Port      int // of the agent's API; 0: 10250
	Dir       string
	StaticDir string
	Storage   string // directory of local storage, beside Dir; "": the node offers none
	Runtime   runtime.Config
	Serving   interface { // the certificate of the agent's API
		Server(*tls.ClientHelloInfo) (*tls.Certificate, error)
	}
	CA          []byte // PEM
	Client      client.Client
	Pins        node.Pins // keeps ConfigMaps and Secrets for Client; nil: it has all of them
	ProxyClient client.Client
	Events      *client.Recorder
	Loops       *loop.Watchers
	Beat        time.Duration  // between two renewals of the node's lease; 0: 10 s
	Proxy       bool           // program the services of the cluster into this network namespace
	Services    []netip.Prefix // ranges of cluster IPs; none: 10.96.0.0/16
	DNS         ClusterDNS
	NoPolicies  bool // as in Config
	Pressure    Pressure
	PodCIDR     netip.Prefix // that the Node registers with; zero: the cluster gives it one
	Network     string       // as in Config
	policies    *netpolicy.Enforcer
	// whole returns a client that reads all that network policies are judged by; nil: ProxyClient does.
	whole func(context.Context) (client.Client, error)

	ProxyMode, ProxyScheduler string   // as in Config
	NodePortAddresses         []string // as in Config
	Log                       *slog.Logger
}

func (n NodeConfig) log() *slog.Logger {
	if n.Log == nil {
		return slog.Default()
	}
	return n.Log
}

// settle makes the node's directories absolute: containerd, its shims and the mounts of containers do not know where kloop was started.
func (n *NodeConfig) settle() error {
	for _, dir := range []*string{&n.Dir, &n.Runtime.Dir, &n.StaticDir, &n.Storage, &n.Runtime.Socket} {
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

// ErrAgentPort says that the agent's own API, the kubelet's, can't be served: its port, 10250 as a rule, is taken.
var ErrAgentPort = errors.New("listen for the agent's API")

// nodeParts are the parts of a node, in the order in which they start.
func nodeParts(n NodeConfig) ([]part, error) {
	n.Log = n.log()
	if err := errors.Join(checkProxy(n.ProxyMode, n.ProxyScheduler), checkServices(n.Services),
		checkNodePortAddresses(n.NodePortAddresses), n.DNS.check(), checkNetwork(n.Network)); err != nil {
		return nil, err
	}
	if n.Port == 0 {
		n.Port = 10250
	}
	if err := n.settle(); err != nil {
		return nil, err
	}
	certs, err := pki.ParseCerts(n.CA)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's CA: %w", err)
	}
	if err := os.MkdirAll(n.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the node's directory: %w", err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("0.0.0.0", strconv.Itoa(n.Port)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAgentPort, err)
	}
	if !n.NoPolicies {
		n.policies = netpolicy.New(netpolicy.Config{Client: n.ProxyClient, Cluster: n.whole, Node: n.Name, Log: n.Log})
	}
	n.Runtime.Foreign = n.Network == NetworkNone
	socket := n.Runtime.Socket
	var list []part
	if socket == "" {
		own := runtime.New(n.Runtime)
		socket = own.Socket()
		list = append(list, part{"containerd", own.Run})
	}
	list = append(list, part{"node", func(ctx context.Context, ready func()) error { return n.runAgent(ctx, ready, socket, l, certs) }})
	for _, l := range nodeLoops(n) {
		if l.on {
			list = append(list, part{l.name, l.run})
		}
	}
	return list, nil
}

// runAgent runs the node's agent on a runtime until ctx ends.
func (n NodeConfig) runAgent(ctx context.Context, ready func(), socket string, l net.Listener, certs []*x509.Certificate) error {
	rt, err := runtime.Connect(ctx, socket)
	if err != nil {
		return err
	}
	defer rt.Close()
	cfg, err := n.agent(rt)
	if err != nil {
		return err
	}
	agent := node.New(cfg)
	served := make(chan error, 1)
	sctx, stop := context.WithCancel(ctx)
	go func() {
		served <- agent.Serve(sctx, l, serve.Config{Node: n.Name, Client: n.Client, ClientCA: pool(certs...), Log: n.Log})
	}()
	ready()
	err = agent.Run(ctx, loop.Env{Client: n.Client, Log: n.Log, Events: n.Events, Watch: n.Loops, Trail: true})
	stop()
	return errors.Join(err, <-served)
}

// agent configures the node's agent.
func (n NodeConfig) agent(rt *runtime.Runtime) (node.Config, error) {
	cfg := node.Config{Name: n.Name, Client: n.Client, Pins: n.Pins, Events: n.Events, Runtime: rt, Log: n.Log, Dir: n.Dir,
		StaticDir: n.StaticDir, Address: n.Address, Port: n.Port, Serving: n.Serving.Server, Beat: n.Beat,
		DNS: n.DNS.addresses(n.Services), Domain: n.DNS.Domain}
	if cfg.OwnNetwork = n.ownNetwork(); cfg.OwnNetwork {
		cfg.PodCIDR = n.PodCIDR
	}
	if n.policies != nil {
		cfg.Policies = n.policies
	}
	return cfg, n.Pressure.into(&cfg)
}

// anywhere is an address that no machine has, behind the default route (RFC 5737).
const anywhere = "203.0.113.1:9"

// hostAddress is the IPv4 address by which this machine reaches another, host:port; "" or one of this machine's own loopback: by which it
// reaches most. Links that are made for pods have none of it. It sends nothing. Of the loopback when the machine reaches nobody.
func hostAddress(other string) (netip.Addr, error) {
	for _, to := range []string{other, anywhere} {
		c, err := net.Dial("udp4", to)
		if err != nil {
			continue // no route there, or nothing was given
		}
		from, err := netip.ParseAddrPort(c.LocalAddr().String())
		c.Close()
		if err == nil && from.Addr().IsGlobalUnicast() {
			return from.Addr(), nil
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read the machine's addresses: %w", err)
	}
	for _, l := range links {
		addrs, err := l.Addrs()
		if err != nil || l.Name == podnetwork.Bridge || l.Name == podnetwork.Tunnel {
			continue // it has just gone, or is our own
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
				return p.Addr(), nil
			}
		}
	}
	return netip.MustParseAddr("127.0.0.1"), nil
}
