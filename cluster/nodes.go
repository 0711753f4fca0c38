package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/sim"
)

// nodes are the parts that make nodes: simulated ones, and this machine if it is one.
func (c *Cluster) nodes() (list []part, err error) {
	if c.cfg.SimNodes > 0 {
		list = append(list, part{"simulated nodes", func(ctx context.Context, ready func()) error {
			if err := sim.Nodes(ctx, c.door.local(nodesUser, "kloop-sim"), c.cfg.SimNodes); err != nil {
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
	rt := runtime.Config{Dir: filepath.Join(c.cfg.NodeDir, "runtime"), Foreign: c.cfg.Network == NetworkNone, Log: c.cfg.Log}
	if err := runtime.Available(rt); err != nil {
		if c.cfg.Node == NodeReal {
			return nil, fmt.Errorf("run a node here: %w", err)
		}
		c.nodeless = err
		return list, nil
	}
	n, err := c.ownNode(rt)
	if err != nil {
		return nil, err
	}
	return append(list, n...), nil
}

// storageDir is where a node keeps local storage, below its data directory.
const storageDir = "storage"

// nodesUser is who the simulation acts as.
var nodesUser = &auth.User{Name: "system:kloop:simulation", Groups: []string{auth.GroupMasters, auth.GroupAuthenticated}}

func (c *Cluster) simPart(l loop.Loop) part {
	return part{l.LoopName(), func(ctx context.Context, ready func()) error {
		ready()
		return l.Run(ctx, loop.Env{Client: c.door.local(nodesUser, "kloop-sim"), Log: c.cfg.Log, Events: c.door.events.For("kubelet", ""), Watch: c.Loops, Trail: c.door.trail != nil})
	}}
}

// beat is how often a node must renew its lease so that a few missed renewals do not make it lost.
func beat(grace time.Duration) time.Duration {
	const usual = 10 * time.Second
	if grace == 0 {
		return usual
	}
	return min(usual, grace/4)
}

// ownNode makes this machine a node: a runtime, an agent and a proxy, in this process and without HTTP.
func (c *Cluster) ownNode(rt runtime.Config) ([]part, error) {
	name := c.cfg.NodeName
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		name = strings.ToLower(host)
	}
	addr, err := hostAddress(c.cfg.Listen)
	if err != nil {
		return nil, err
	}
	serving, err := c.keys.CA.Rotating(pki.Leaf{User: "system:node:" + name, Groups: []string{auth.GroupNodes},
		Hosts: []string{name, addr.String(), "127.0.0.1"}, Server: true}, nil)
	if err != nil {
		return nil, err
	}
	storage := ""
	if !c.cfg.NoLocalStorage {
		storage = filepath.Join(c.cfg.NodeDir, storageDir)
	}
	user := &auth.User{Name: "system:node:" + name, Groups: []string{auth.GroupNodes, auth.GroupAuthenticated}}
	return nodeParts(NodeConfig{Name: name, Address: addr, Dir: filepath.Join(c.cfg.NodeDir, "node"), StaticDir: c.cfg.StaticDir, Storage: storage, Runtime: rt, Serving: serving,
		CA: c.keys.CA.PEM, Client: c.door.local(user, "kubelet"), Events: c.door.events.For("kubelet", name), Loops: c.Loops, Proxy: true, Beat: beat(c.cfg.NodeMonitorGrace),
		ProxyClient: c.door.local(loopUser("kube-proxy"), "kube-proxy"),
		Services:    c.cfg.ServiceCIDRs, ProxyMode: c.cfg.ProxyMode, ProxyScheduler: c.cfg.ProxyScheduler,
		PodCIDR: c.cfg.ownPodCIDR(), Network: c.cfg.Network, NodePortAddresses: c.cfg.NodePortAddresses, DNS: c.cfg.DNS, NoPolicies: c.cfg.NoPolicies, Pressure: c.cfg.Pressure})
}
