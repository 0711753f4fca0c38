package cluster

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// How often a process tells another one of its loops. The other one says when it wants to be told again.
const (
	tellFirst  = time.Second
	tellLimit  = 2 * time.Second // how long one report may take
	tellAgain  = 5 * time.Second // after a failure
	tellSeldom = time.Minute     // to those who take no reports
	tellMost   = time.Minute     // whatever the answer says
)

// Tell reports to a server until ctx ends. A server that takes no reports is no failure: its loops run all the same.
func Tell(ctx context.Context, log *slog.Logger, to client.Client, report func() *convergence.Report) {
	for pause := tellFirst; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = tellOnce(ctx, log, to, report())
	}
}

// tellOnce reports, and says how long to wait before the next report.
func tellOnce(ctx context.Context, log *slog.Logger, to client.Client, r *convergence.Report) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, tellLimit)
	defer cancel()
	out, err := to.Create(ctx, convergence.Reports, r)
	switch {
	case err == nil:
		again, _ := out.(*convergence.Report)
		return min(max(time.Duration(again.Again)*time.Second, tellFirst), tellMost)
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err):
		log.Debug("the server takes no reports of loops", "err", err, "again", tellSeldom)
		return tellSeldom
	}
	log.Debug("report the loops", "err", err, "again", tellAgain)
	return tellAgain
}

// serverUser is a server's user name at the others that share its store.
var serverUser = &auth.User{Name: "system:kloop:server", Groups: []string{auth.GroupMasters, auth.GroupAuthenticated}}

// tellOthers reports to the other servers what this one knows: its loops if they run here, and the controllers outside
// that talk to it.
func (d *frontDoor) tellOthers(ctx context.Context, ready func()) error {
	ready()
	running := map[string]context.CancelFunc{}
	ctx, stopAll := context.WithCancel(ctx)
	var told sync.WaitGroup
	defer told.Wait()
	defer stopAll()
	t := time.NewTicker(tellAgain)
	defer t.Stop()
	for {
		others, changed := d.servers(), d.c.keys.Changed()
		for at, stop := range running {
			if !slices.Contains(others, at) {
				stop()
				delete(running, at)
			}
		}
		for _, at := range others {
			if running[at] != nil {
				continue
			}
			to, err := d.another(at)
			if err != nil {
				return err
			}
			own, stop := context.WithCancel(ctx)
			running[at] = stop
			told.Go(func() { Tell(own, d.log, to, d.report) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		case <-changed: // reports go on with other certificates
			for at, stop := range running {
				stop()
				delete(running, at)
			}
		}
	}
}

// report holds what this server tells others.
func (d *frontDoor) report() *convergence.Report {
	r := converge.ReportOf(d.c.Loops, d.explainer.loops.Self, d.explainer.loops.Lease)
	d.explainer.callers.Report(r)
	d.explainer.loops.Relay(r)
	r.Server = d.unwell.last.Load()
	return r
}

// servers are the addresses of the other servers that share the store.
func (d *frontDoor) servers() (list []string) {
	e := resource.Get(d.read(), core.Endpoints, "default", "kubernetes")
	if e == nil {
		return nil
	}
	own := d.c.advertised()
	for _, s := range e.Subsets {
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				if len(own) > 0 && own[0].Addr().String() == a.IP {
					continue
				}
				list = append(list, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
	}
	return list
}

// another is a client of another server.
func (d *frontDoor) another(at string) (client.Client, error) {
	cfg, err := d.c.restOf("https://"+at, serverUser)
	if err != nil {
		return nil, err
	}
	if d.c.cfg.Kit.Remote == nil {
		return nil, errNoOthers
	}
	return d.c.cfg.Kit.Remote(cfg, d.set, "kloop-server")
}
