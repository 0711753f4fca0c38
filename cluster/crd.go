package cluster

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/controllers/apiserveridentity"
	"github.com/kloop-dev/kloop/controllers/definition"
	"github.com/kloop-dev/kloop/controllers/flowschema"
	"github.com/kloop-dev/kloop/loop"
)

// define serves the kinds that users define: those that are there before the API opens, others as they come. It runs
// in every server, as what is served is known per process, and so do the small loops beside
// it: over flow schemas, and of the server's name.
func (d *frontDoor) define(ctx context.Context, ready func()) error {
	if err := definition.Adopt(d.custom, d.read()); err != nil {
		d.log.Warn("some kinds are not served", "err", err)
	}
	ready()
	user := &auth.User{Name: "system:apiserver", Groups: []string{auth.GroupMasters}}
	env := func(manager string) loop.Env {
		return loop.Env{Client: d.local(user, manager), Log: d.log, Events: d.events.For("apiserver", ""), Now: time.Now, Watch: d.c.Loops,
			Trail: d.trail != nil}
	}
	ctx, stop := context.WithCancel(ctx)
	beside := []func(context.Context) error{func(ctx context.Context) error {
		return flowschema.Controller.Run(ctx, env("api-priority-and-fairness-config-consumer-v1"))
	}}
	if d.set.Features().On("APIServerIdentity") && d.c.elsewhere == nil {
		beside = append(beside, func(ctx context.Context) error {
			return apiserveridentity.Controller(self(d.c.cfg)).Run(ctx, env("kube-apiserver"))
		})
	}
	ended := make(chan error, len(beside))
	for _, run := range beside {
		go func() {
			defer stop()
			ended <- run(ctx)
		}()
	}
	err := definition.Controller(d.custom).Run(ctx, env("kube-apiserver"))
	stop()
	for range beside {
		err = errors.Join(err, <-ended)
	}
	return err
}

// self is this server among the others: one host has one, unless servers have names of their own.
func self(c Config) apiserveridentity.Self {
	host := c.Together.Name
	if host == "" {
		host, _ = os.Hostname() // no name is one too
	}
	return apiserveridentity.Self{Host: host, Holder: Identity()}
}
