package cluster

import (
	"context"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/controllers"
	"github.com/kloop-dev/kloop/controllers/horizontalpodautoscaler"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/scheduler"
	"github.com/kloop-dev/kloop/sim"
)

// loopTable is every loop of a cluster: the controllers and the scheduler.
func loopTable(cfg controllers.Config, profiles []scheduler.Profile) []controllers.Entry {
	return append(controllers.All(cfg),
		controllers.Entry{Loop: scheduler.New(scheduler.Config{Profiles: profiles}), Account: "kube-scheduler", Component: "default-scheduler"})
}

// loops are the parts that close gaps, and the simulation of nodes.
func (c *Cluster) loops() (list []part, err error) {
	own, err := c.restAs(loopUser("horizontal-pod-autoscaler"))
	if err != nil {
		return nil, err
	}
	profiles, err := c.cfg.profiles()
	if err != nil {
		return nil, err
	}
	table := append(loopTable(controllers.Config{Kinds: c.door.set, RootCA: c.cred.root, NodeGrace: c.cfg.NodeMonitorGrace,
		Metrics: horizontalpodautoscaler.REST(own), AutoscalerPeriod: c.cfg.AutoscalerPeriod, Pods: c.cfg.nodeRanges(), LoadBalancer: c.cfg.LoadBalancer,
		Others: c.door.others, DNS: c.cfg.DNS.published(c.cfg.ServiceCIDRs), LocalStorage: !c.cfg.NoLocalStorage,
		Snapshots: c.cfg.VolumeSnapshots}, profiles),
		controllers.Signing(c.keys.CA), controllers.Tokens(c.door.signer, c.cred.root))
	if table, err = wantedLoops(table, c.cfg.Controllers); err != nil {
		return nil, err
	}
	for _, e := range table {
		list = append(list, c.loopPart(e))
	}
	list = append(list, c.sources()...)
	for _, l := range sim.LoopsIn(c.cfg.simulatedPods()) {
		list = append(list, c.simPart(l))
	}
	return list, nil
}

// loopPart runs a loop as the account that upstream gives it.
func (c *Cluster) loopPart(e controllers.Entry) part {
	manager := "kube-controller-manager"
	if e.Account == manager || e.Account == "kube-scheduler" {
		manager = e.Account
	}
	return part{e.LoopName(), func(ctx context.Context, ready func()) error {
		ready()
		return e.Run(ctx, loop.Env{Client: c.door.local(accountOf(e), manager), Log: c.cfg.Log,
			Events: c.door.events.For(e.Component, ""), Now: time.Now, Watch: c.Loops, Trail: c.door.trail != nil,
			Resync: c.cfg.resync(e.LoopName())})
	}}
}

// accountOf is who a loop acts as. What upstream runs as a component's own user has no service account.
func accountOf(e controllers.Entry) *auth.User {
	if e.Account == "kube-controller-manager" || e.Account == "kube-scheduler" {
		return &auth.User{Name: "system:" + e.Account, Groups: []string{auth.GroupAuthenticated}}
	}
	return loopUser(e.Account)
}
