package machine

import (
	"context"
	"os"
	"path/filepath"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/dns"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/loadbalancer"
	"github.com/kloop-dev/kloop/node/localstorage"
	"github.com/kloop-dev/kloop/podnetwork"
	"github.com/kloop-dev/kloop/proxy"
)

// A nodeLoop is a loop of the node beside the agent: its desired state is a pure function of what it reads of the cluster, what it
// observes lies in the node's kernel. It runs in `kloop up` and in `kloop node` alike.
type nodeLoop struct {
	name  string
	on    bool
	reads []client.Source // beside Services and the node's own pods, which the agent reads
	run   func(ctx context.Context, ready func()) error
}

// nodeLoops is the table of them, in the order in which they start.
func nodeLoops(n Config) []nodeLoop {
	return []nodeLoop{
		{"local storage", true, nil, func(ctx context.Context, ready func()) error {
			return localstorage.Run(ctx, localstorage.Config{Client: n.Client, Node: n.Name, Dir: n.Storage, Log: n.Log}, ready)
		}},
		{"proxy", n.Proxy, n.proxyReads(), n.serveServices},
		{"pod network", true, []client.Source{{Kind: kinds.Nodes}}, n.connectPods},
		{"network policies", !n.NoPolicies, []client.Source{{Kind: kinds.NetworkPolicies}}, func(ctx context.Context, ready func()) error {
			return n.policies.Run(ctx, ready)
		}},
		{"taken ports", n.Proxy, []client.Source{{Kind: kinds.Services}}, func(ctx context.Context, ready func()) error {
			ready()
			return loadbalancer.Ports{Client: n.Client, Node: n.Name, Off: n.ProxyMode == cluster.ProxyNone, Log: n.log()}.Tell(ctx)
		}},
		// What is read can't depend on the address: a node that joins learns the families of the cluster when it already reads.
		{"load balancer addresses", n.Proxy, []client.Source{{Kind: kinds.Leases, Namespace: wellknown.AnnounceSpace}},
			func(ctx context.Context, ready func()) error {
				ready()
				if !n.Address.IsValid() {
					<-ctx.Done()
					return nil
				}
				return loadbalancer.Announce(ctx, n.announcing())
			}},
		{"routes to load balancers", n.Proxy, []client.Source{{Kind: kinds.Leases, Namespace: wellknown.AnnounceSpace}},
			func(ctx context.Context, ready func()) error {
				ready()
				if !n.Address.IsValid() {
					<-ctx.Done()
					return nil
				}
				return loadbalancer.Speak(ctx, n.announcing())
			}},
		{"dns", !n.DNS.Off, []client.Source{{Kind: kinds.EndpointSlices}, {Kind: kinds.Namespaces}, {Kind: kinds.Nodes}},
			func(ctx context.Context, ready func()) error {
				return dns.Run(ctx, n.nameServer(), ready)
			}},
		{"dns annotation", n.DNS.Off, nil, func(ctx context.Context, ready func()) error {
			ready()
			if err := dns.Leave(); err != nil {
				n.log().Debug("sockets of the cluster DNS stay", "err", err)
			}
			return dns.Annotate(ctx, n.Client, n.Name, "", func(err error) {
				n.log().Warn("take back that the node serves the cluster DNS",
					"err", err)
			})
		}},
	}
}

func (n Config) announcing() loadbalancer.Config {
	return loadbalancer.Config{Client: n.Client, Node: n.Name, Address: n.Address, Addresses: n.addresses(), Log: n.log()}
}

// ownNetwork says that pods' networks are of our making.
func (n Config) ownNetwork() bool { return n.Network != cluster.NetworkNone }

// connectPods makes the pod network of the node, or takes away what was made when another program makes it now.
func (n Config) connectPods(ctx context.Context, ready func()) error {
	if former := n.Runtime.FormerConfig(); former != "" {
		if err := os.Remove(former); err != nil {
			n.log().Warn("another runtime goes on connecting pods by the configuration of this node's former one", "err", err)
		}
	}
	if n.Network == cluster.NetworkNone {
		if err := podnetwork.Cleanup(n.Runtime.OwnConfig(), n.log()); err != nil {
			n.log().Warn("another program makes the pod network; parts of ours may be left", "err", err)
		}
		ready()
		<-ctx.Done()
		return nil
	}
	return podnetwork.Run(ctx, podnetwork.Config{Client: n.ProxyClient, Self: n.Client, Node: n.Name, Mode: n.Network, Log: n.Log,
		KeyFile: filepath.Join(n.Dir, "wireguard.key"),
		CNI:     podnetwork.CNI{File: n.Runtime.OwnConfig(), Dir: n.Runtime.IPAMDir()}}, ready)
}

// serveServices programs the cluster's services, or takes away what was programmed when another program does so now.
func (n Config) serveServices(ctx context.Context, ready func()) error {
	if n.ProxyMode == cluster.ProxyNone {
		if err := proxy.Cleanup(n.IPVS.Exclude...); err != nil {
			n.log().Warn("another program serves the services; rules of ours may be left", "err", err)
		}
		ready()
		<-ctx.Done()
		return nil
	}
	cfg := proxy.Config{Client: n.ProxyClient, Node: n.Name, Address: n.Address, Pods: n.PodCIDRs, Log: n.Log,
		Events: n.Events, Services: n.Services, Healthz: ":" + proxy.HealthzPort, NodePortAddresses: n.NodePortAddresses,
		Self: n.Client, IPVS: proxy.IPVS{Scheduler: n.ProxyScheduler, LooseARP: n.IPVS.LooseARP, Exclude: n.IPVS.Exclude,
			TCPTimeout: n.IPVS.TCPTimeout, TCPFinTimeout: n.IPVS.TCPFinTimeout, UDPTimeout: n.IPVS.UDPTimeout}}
	if n.ProxyMode == cluster.ProxyIPVS {
		cfg.Mode = proxy.ModeIPVS
	}
	return proxy.Run(ctx, cfg, ready)
}

// proxyReads lists the sources of the proxy. In mode ipvs it must know the addresses of all machines, which no service may take from them.
func (n Config) proxyReads() []client.Source {
	list := []client.Source{{Kind: kinds.EndpointSlices}, {Kind: kinds.ServiceCIDRs}}
	if n.ProxyMode == cluster.ProxyIPVS {
		list = append(list, client.Source{Kind: kinds.Nodes})
	}
	return list
}

// nodeSources lists the objects that a node watches. ConfigMaps and Secrets it watches one by one: client.Pinned.
func nodeSources(n Config) []client.Source {
	own := client.Source{Kind: kinds.Nodes, Fields: "metadata.name=" + n.Name}
	list := []client.Source{{Kind: kinds.Pods, Fields: "spec.nodeName=" + n.Name}, {Kind: kinds.Services}, own,
		{Kind: kinds.ResourceSlices, Fields: "spec.nodeName=" + n.Name}}
	for _, l := range nodeLoops(n) {
		for _, s := range l.reads {
			if l.on {
				list = withSource(list, s)
			}
		}
	}
	return list
}

// withSource adds a source, once. Of the node's own objects and all of a kind, all it is.
func withSource(list []client.Source, s client.Source) []client.Source {
	for i := range list {
		if list[i].Kind == s.Kind {
			if s.Fields == "" {
				list[i] = s
			}
			return list
		}
	}
	return append(list, s)
}

// nameServer configures the node's DNS server.
func (n Config) nameServer() dns.Config {
	c := n.DNS.Server(n.Services)
	c.Client, c.Node, c.Addresses, c.Log = n.Client, n.Name, n.addresses(), n.log()
	return c
}
