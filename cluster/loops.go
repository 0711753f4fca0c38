package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/loop"
)

// errNoLoops explains a program that was built without loops.
var errNoLoops = errors.New("this program brings no loops (cluster.Config.Kit): whole.Kit has all of them, and NoLoops runs none")

// loops are the parts that close gaps, and the simulation of nodes.
func (c *Cluster) loops() (list []part, err error) {
	table, err := c.entries()
	if err != nil {
		return nil, err
	}
	for _, e := range table {
		if slices.Contains(keyed, e.LoopName()) {
			list = append(list, c.keyedPart(e.LoopName()))
		} else {
			list = append(list, c.loopPart(e))
		}
	}
	list = append(list, c.sources()...)
	if c.cfg.Kit.Nodes != nil {
		for _, l := range c.cfg.Kit.Nodes.Loops(c.cfg.PodCIDRs...) {
			list = append(list, c.simPart(l))
		}
	}
	return list, nil
}

// keyed are the loops that hold certificates: they begin anew when those are exchanged.
var keyed = []string{"root-ca-publisher", "serviceaccount-token", "horizontal-pod-autoscaler"}

// entries are the loops, with the certificates of now.
func (c *Cluster) entries() ([]kit.Entry, error) {
	var own rest.Interface
	if c.cfg.Kit.Raw != nil {
		var err error
		if own, err = c.restAs(loopUser("horizontal-pod-autoscaler")); err != nil {
			return nil, err
		}
	}
	return c.cfg.table(kit.Cluster{Kinds: c.door.set, RootCA: c.cred.root(), CA: c.keys.CA, Tokens: c.door.signer,
		Others: c.door.others, REST: own, Figures: &c.figures})
}

// keyedPart runs a loop, and another one in its place whenever the keys are exchanged.
func (c *Cluster) keyedPart(name string) part {
	return part{name, func(ctx context.Context, ready func()) error {
		ready = sync.OnceFunc(ready)
		for {
			changed := c.keys.Changed()
			table, err := c.entries()
			if err != nil {
				return err
			}
			i := slices.IndexFunc(table, func(e kit.Entry) bool { return e.LoopName() == name })
			if i < 0 {
				return fmt.Errorf("the loop %s is no more", name)
			}
			own, stop := context.WithCancel(ctx)
			go func() {
				select {
				case <-changed:
					stop()
				case <-own.Done():
				}
			}()
			err = c.loopPart(table[i]).Run(own, ready)
			ended := own.Err() != nil && ctx.Err() == nil
			stop()
			if !ended {
				return err
			}
		}
	}}
}

// table returns those of the program's loops that the configuration asks for.
func (c Config) table(terms kit.Cluster) ([]kit.Entry, error) {
	if c.Kit.Loops == nil {
		return nil, errNoLoops
	}
	if c.SchedulerConfig != "" {
		data, err := os.ReadFile(c.SchedulerConfig)
		if err != nil {
			return nil, fmt.Errorf("read the scheduler's configuration: %w", err)
		}
		terms.Scheduler = append([]byte{}, data...)
	}
	terms.NodeGrace, terms.AutoscalerPeriod, terms.Pods = c.NodeMonitorGrace, c.AutoscalerPeriod, c.nodeRanges()
	terms.DNS, terms.LoadBalancer, terms.LocalStorage = c.DNS.published(c.ServiceCIDRs), c.LoadBalancer, !c.NoLocalStorage
	terms.Snapshots = c.VolumeSnapshots
	table, err := c.Kit.Loops(terms)
	if err != nil {
		return nil, err
	}
	return wantedLoops(table, c.Controllers)
}

// loopPart runs a loop as the account that upstream gives it.
func (c *Cluster) loopPart(e kit.Entry) part {
	manager := "kube-controller-manager"
	if e.Account == manager || e.Account == "kube-scheduler" {
		manager = e.Account
	}
	return part{e.LoopName(), func(ctx context.Context, ready func()) error {
		ready()
		return e.Run(ctx, loop.Env{Client: c.door.local(accountOf(e), manager), Log: c.cfg.Log,
			Events: c.door.events.For(e.Component, ""), Now: time.Now, Watch: c.Loops, Trail: c.door.trail != nil, Figures: &c.figures,
			Resync: c.cfg.resync(e.LoopName())})
	}}
}

// accountOf is the user as which a loop acts. What upstream runs as a component's own user has no service account.
func accountOf(e kit.Entry) *auth.User {
	if e.Account == "kube-controller-manager" || e.Account == "kube-scheduler" {
		return &auth.User{Name: "system:" + e.Account, Groups: []string{auth.GroupAuthenticated}}
	}
	return loopUser(e.Account)
}
