package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/served"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/strict"
)

// Loops says how to run the loops away from the server.
type Loops struct {
	Rest     *rest.Config
	Config   Config // of it Kit, Controllers and what says how often they look
	Log      *slog.Logger
	Election client.Election // without Client

	// Clock calls set whenever the wall clock was set, until ctx ends, as wallclock.Watch does; nil: nobody hears of it, as in
	// simulated time.
	Clock func(ctx context.Context, ready, set func()) error
}

// RunLoops runs the loops of a whole cluster, the simulation of nodes among them, over HTTP while this replica leads. Which Kubernetes they
// serve, and which feature gates are on, is the server's to say, whatever the configuration says. It returns
// when ctx ends, or when leadership was lost: the process should then start anew, cold.
func RunLoops(ctx context.Context, l Loops) error {
	if err := strict.Refuse(l.Config.check()); err != nil {
		return err
	}
	set := resource.NewSet(l.Config.kinds()...)
	here := kit.Cluster{}
	var err error
	if here.RootCA, err = Authority(l.Rest); err != nil {
		return err
	}
	if l.Config.SigningCert != "" {
		if here.CA, err = pki.ReadAuthority(l.Config.SigningCert, l.Config.SigningKey, time.Now()); err != nil {
			return strict.Refuse(err)
		}
	}
	elector, err := client.NewRemote(l.Rest, set, "kloop-controllers/leader-election")
	if err != nil {
		return err
	}
	l.Election.Client = elector
	watchers := &loop.Watchers{}
	telling, stop := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() {
		Tell(telling, l.Log, elector, func() *convergence.Report {
			return converge.ReportOf(watchers, l.Election.Identity, l.Election.Namespace+"/"+l.Election.Name)
		})
	})
	defer told.Wait()
	defer stop()
	var failed error
	l.Election.Run(ctx, func(ctx context.Context) {
		failed = l.lead(ctx, here, watchers)
	})
	if failed == nil && ctx.Err() == nil {
		failed = errors.New("leadership was lost")
	}
	return failed
}

func (l Loops) lead(ctx context.Context, here kit.Cluster, watchers *loop.Watchers) error {
	on, err := client.Features(ctx, l.Rest)
	if err != nil {
		return err
	}
	set := served.Set(on, nil, l.Config.kinds())
	var sources []client.Source
	for _, k := range set.All() {
		if slices.Contains(k.Info().Verbs, "watch") {
			sources = append(sources, client.Source{Kind: k})
		}
	}
	remote, err := client.NewRemote(l.Rest, set, "kube-controller-manager/kloop", sources...)
	if err != nil {
		return err
	}
	events := client.NewRecorder(remote, "kloop", nil)
	list := []part{
		copied("copies of what the server holds", remote, remote.Run),
		copied("copies of what users define", remote, (&definedKinds{remote: remote, log: l.Log}).run),
		{"events", func(ctx context.Context, ready func()) error { ready(); events.Run(ctx); return nil }},
	}
	if l.Clock != nil {
		list = append(list, clockPart(watchers, l.Clock))
	}
	here.Kinds = set
	if here.REST, err = client.Raw(l.Rest); err != nil {
		return err
	}
	table, err := l.entries(here)
	if err != nil {
		return strict.Refuse(err)
	}
	for _, e := range table {
		list = append(list, l.loopPart(e, remote, loop.Env{Log: l.Log, Events: events, Watch: watchers, Trail: true}))
	}
	return RunParts(ctx, l.Log, func() { l.Log.Info("the loops run") }, list...)
}

// entries are the loops, with those of simulated nodes.
func (l Loops) entries(here kit.Cluster) ([]kit.Entry, error) {
	table, err := l.Config.table(here)
	if err != nil || l.Config.Kit.Nodes == nil {
		return table, err
	}
	for _, s := range l.Config.Kit.Nodes.Loops() {
		table = append(table, kit.Entry{Loop: s, Component: "kloop-sim"})
	}
	return table, nil
}

// loopPart runs a loop. The scheduler owns the fields that it writes under a name of its own.
func (l Loops) loopPart(e kit.Entry, remote *client.Remote, env loop.Env) part {
	if env.Client = remote; e.Account == "kube-scheduler" {
		env.Client = remote.As("kube-scheduler/kloop")
	}
	env.Events, env.Resync = env.Events.For(e.Component, ""), l.Config.resync(e.LoopName())
	return part{e.LoopName(), func(ctx context.Context, ready func()) error {
		ready()
		return e.Run(ctx, env)
	}}
}

// Authority is the CA certificate that the kubeconfig trusts; the loops publish it to every namespace.
func Authority(cfg *rest.Config) ([]byte, error) {
	switch {
	case len(cfg.CAData) > 0:
		return cfg.CAData, nil
	case cfg.CAFile != "":
		data, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the CA of the kubeconfig: %w", err)
		}
		return data, nil
	}
	return nil, errors.New("the kubeconfig names no certificate authority; the loops must publish one")
}
