package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/controllers/definition"
	"github.com/kloop-dev/kloop/controllers/flowschema"
	"github.com/kloop-dev/kloop/loop"
)

// define serves the kinds that users define: those that are there before the API opens, others as they come. It runs
// in every server, as what is served is known per process, and so does the small loop over flow schemas beside it.
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
	flows := make(chan error, 1)
	go func() {
		defer stop()
		flows <- flowschema.Controller.Run(ctx, env("api-priority-and-fairness-config-consumer-v1"))
	}()
	err := definition.Controller(d.custom).Run(ctx, env("kube-apiserver"))
	stop()
	return errors.Join(err, <-flows)
}
