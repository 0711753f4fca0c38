package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/loop"
)

// nodes are the parts that make nodes: simulated ones, and this machine if it is one.
func (c *Cluster) nodes() (list []part, err error) {
	if c.cfg.SimNodes > 0 {
		list = append(list, part{"simulated nodes", func(ctx context.Context, ready func()) error {
			if err := c.cfg.Kit.Nodes.Make(ctx, c.door.local(nodesUser, "kloop-sim"), c.cfg.SimNodes); err != nil {
				return fmt.Errorf("make the simulated nodes: %w", err)
			}
			ready()
			<-ctx.Done()
			return nil
		}})
	}
	if c.cfg.Node == NodeNone {
		return list, nil
	}
	if err := fit(c.cfg); err != nil {
		if c.cfg.Node == NodeReal {
			return nil, fmt.Errorf("run a node here: %w", err)
		}
		c.nodeless = err
		return list, nil
	}
	h, err := c.host()
	if err != nil {
		return nil, err
	}
	own, err := c.cfg.Machine.Parts(h)
	return append(list, own...), err
}

// nodesUser is the user as which the simulation acts.
var nodesUser = &auth.User{Name: "system:kloop:simulation", Groups: []string{auth.GroupMasters, auth.GroupAuthenticated}}

func (c *Cluster) simPart(l loop.Loop) part {
	return part{l.LoopName(), func(ctx context.Context, ready func()) error {
		ready()
		return l.Run(ctx, loop.Env{Client: c.door.local(nodesUser, "kloop-sim"), Log: c.cfg.Log, Events: c.door.events.For("kubelet", ""),
			Watch: c.Loops, Trail: c.door.trail != nil})
	}}
}

// A Machine makes the machine of a cluster's process a node. Package machine has the one there is. The control plane imports none of what
// a node needs, so that it builds where no node can run, and a program without nodes does not link it: main brings it.
type Machine interface {
	// Check says what can't be meant of the settings that the node alone has.
	Check(Config) error
	// Fit says why the machine can't become a node; nil: it can.
	Fit(Config) error
	// Parts lists what runs on the node, in the order of its start.
	Parts(Host) ([]Part, error)
}

// A Host holds what a node in the cluster's own process gets of it without HTTP.
type Host struct {
	Config          Config // of the cluster; defaults are filled in
	Name            string
	Address, Second netip.Addr            // the second is of the other family; zero: none
	Beat            time.Duration         // between two renewals of the node's lease
	PodCIDRs        []netip.Prefix        // that the Node registers with; none: the cluster gives it some
	Serving         *pki.Rotating         // the certificate of the agent's API
	Callers         func() *x509.CertPool // who signs the certificates of those who call the agent
	Client          client.Client         // as the node
	ProxyClient     client.Client         // as kube-proxy
	Events          *client.Recorder
	Loops           *loop.Watchers
}

// ErrAgentPort says that the agent's own API, the kubelet's, can't be served: its port, 10250 as a rule, is taken.
var ErrAgentPort = errors.New("listen for the agent's API")

// errNoMachine explains a program that was built without package machine.
var errNoMachine = errors.New("this program has no part that runs nodes (cluster.Config.Machine): nodes are machines with Linux")

// fit says why this machine can't become a node.
func fit(cfg Config) error {
	if cfg.Machine == nil {
		return errNoMachine
	}
	return cfg.Machine.Fit(cfg)
}

// beat is the interval at which a node renews its lease, so that a few missed renewals do not make it lost.
func beat(grace time.Duration) time.Duration {
	const usual = 10 * time.Second
	if grace == 0 {
		return usual
	}
	return min(usual, grace/4)
}

// host gathers the node's name, address, certificate and clients.
func (c *Cluster) host() (Host, error) {
	h := Host{Config: c.cfg, Name: c.cfg.NodeName, Beat: beat(c.cfg.NodeMonitorGrace), PodCIDRs: c.cfg.ownPodCIDRs(), Callers: c.keys.CA.Pool,
		ProxyClient: c.door.local(loopUser("kube-proxy"), "kube-proxy"), Loops: c.Loops}
	if h.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return h, err
		}
		h.Name = strings.ToLower(host)
	}
	var err error
	if h.Address, h.Second, err = HostAddresses(c.cfg.ServiceCIDRs, c.cfg.Listen); err != nil {
		return h, err
	}
	user := &auth.User{Name: "system:node:" + h.Name, Groups: []string{auth.GroupNodes, auth.GroupAuthenticated}}
	h.Client, h.Events = c.door.local(user, "kubelet"), c.door.events.For("kubelet", h.Name)
	h.Serving, err = c.keys.CA.Rotating(pki.Leaf{User: user.Name, Groups: []string{auth.GroupNodes},
		Hosts: hostsOf(h.Name, h.Address, h.Second), Server: true}, nil)
	return h, err
}
