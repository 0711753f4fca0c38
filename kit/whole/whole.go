// Package whole is the kit of a whole cluster: all loops, the simulation of nodes, etcd, and plugins that keep keys.
package whole

import (
	"context"

	"golang.org/x/net/http2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/admission/plugins"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/node"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers"
	"github.com/kloop-dev/kloop/controllers/attachdetach"
	"github.com/kloop-dev/kloop/controllers/gitsource"
	"github.com/kloop-dev/kloop/controllers/horizontalpodautoscaler"
	"github.com/kloop-dev/kloop/controllers/loadbalancer"
	"github.com/kloop-dev/kloop/controllers/manifests"
	"github.com/kloop-dev/kloop/controllers/nodeipam"
	"github.com/kloop-dev/kloop/controllers/selinuxwarning"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/internal/profiles"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/metrics"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/scheduler"
	"github.com/kloop-dev/kloop/server/httpapi/stream"
	"github.com/kloop-dev/kloop/server/workload"
	"github.com/kloop-dev/kloop/sim"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/etcd"
	"github.com/kloop-dev/kloop/store/sealed"
	"github.com/kloop-dev/kloop/store/sealed/plugin"
	"github.com/kloop-dev/kloop/trail/workloads"
	"github.com/kloop-dev/kloop/webhook"
)

// Kit returns all there is.
func Kit() kit.Kit {
	return kit.Kit{Kinds: kinds.All, Loops: loops, Sources: sources, Etcd: etcd.Opener{}, Sealed: seal, Explain: rules.All(),
		Attached: attachdetach.Count, Labels: selinuxwarning.Count, Meter: meter,
		Plugins: plugins.All,
		Agents:  agents, Extensions: workload.All, Evictions: workload.Eviction,
		Ways: webhook.Kubeconfigs(), Remote: client.NewRemote, Raw: client.Raw, HTTP2: http2.ConfigureTransport, News: workloads.News,
		Streams: stream.New, Profiles: profiles.Serve,
		Nodes: &kit.Simulation{Make: sim.Nodes, Loops: sim.LoopsIn, Use: sim.Use}}
}

// agents are those of upstream's node authorizer.
func agents(read func() resource.Reader) auth.Authorizer { return node.New(read) }

// meter asks the nodes' agents.
func meter(cfg kit.MeterConfig) kit.Meter {
	return metrics.New(metrics.Config{Read: cfg.Read, Ask: cfg.Ask, Log: cfg.Log})
}

// loops are the controllers and the scheduler.
func loops(c kit.Cluster) ([]kit.Entry, error) {
	var profiles []scheduler.Profile
	if c.Scheduler != nil {
		var err error
		if profiles, err = scheduler.ReadConfig(c.Scheduler, c.Kinds.Features()); err != nil {
			return nil, err
		}
	}
	cfg := controllers.Config{Kinds: c.Kinds, RootCA: c.RootCA, NodeGrace: c.NodeGrace, Others: c.Others,
		AutoscalerPeriod: c.AutoscalerPeriod,
		DNS:              c.DNS, LoadBalancer: loadbalancer.Mode(c.LoadBalancer), LocalStorage: c.LocalStorage, Snapshots: c.Snapshots,
		Figures: c.Figures}
	if c.REST != nil {
		cfg.Metrics = horizontalpodautoscaler.REST(c.REST)
	}
	for _, p := range c.Pods {
		cfg.Pods = append(cfg.Pods, nodeipam.Pool(p))
	}
	table := append(controllers.All(cfg), controllers.Entry{Loop: scheduler.New(scheduler.Config{Profiles: profiles}),
		Account: "kube-scheduler", Component: "default-scheduler"})
	if c.CA != nil {
		table = append(table, controllers.Signing(c.CA))
	}
	if c.Tokens != nil {
		table = append(table, controllers.Tokens(c.Tokens, c.RootCA))
	}
	list := make([]kit.Entry, 0, len(table))
	for _, e := range table {
		list = append(list, kit.Entry{Loop: e.Loop, Account: e.Account, Component: e.Component})
	}
	for _, e := range controllers.Asked() {
		list = append(list, kit.Entry{Loop: e.Loop, Account: e.Account, Component: e.Component, Asked: true})
	}
	return list, nil
}

// sources are files of this machine, and Git repositories.
func sources(s kit.Sources) (list []kit.Source) {
	if s.Manifests != "" {
		list = append(list, kit.Source{Loop: manifests.Controller(s.Manifests, s.Server), Manager: "manifests"})
	}
	if s.Git {
		l := gitsource.Controller(gitsource.Config{Dir: s.GitDir, Health: s.Health})
		list = append(list, kit.Source{Loop: l, Manager: "git-source", First: defineGitSources})
	}
	return list
}

// defineGitSources applies the definition of the kind.
func defineGitSources(ctx context.Context, cl client.Client) error {
	def, err := gitsource.Definition()
	if err != nil {
		return err
	}
	data, err := codec.MarshalJSON(def)
	if err != nil {
		return err
	}
	patch := client.Patch{Type: types.ApplyPatchType, Data: data, Force: true}
	_, err = cl.Patch(ctx, kinds.CustomResourceDefinitions, "", def.GetName(), patch)
	return err
}

// seal makes a store that encrypts, with plugins that keep keys.
func seal(below store.Store, data []byte, of func(key string) schema.GroupResource) (kit.Sealed, error) {
	s, err := sealed.Open(below, data, dial, of)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func dial(name, path string) (sealed.Conn, error) { return plugin.Dial(name, path) }
