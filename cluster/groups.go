package cluster

import (
	"context"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/controllers/apiservice"
	"github.com/kloop-dev/kloop/kinds/served"
	"github.com/kloop-dev/kloop/loop"
)

// register keeps the list of API groups, in every server: each finds out for itself whom it can reach.
func (d *frontDoor) register(ctx context.Context, ready func()) error {
	ready()
	user := &auth.User{Name: "system:apiserver", Groups: []string{auth.GroupMasters}}
	return apiservice.Controller(apiservice.Config{Kinds: served.Set(d.set.Features(), d.c.cfg.RuntimeConfig, d.c.cfg.kinds()),
		Check: d.others.Check}).Run(ctx,
		loop.Env{Client: d.local(user, "kube-apiserver"), Log: d.log, Events: d.events.For("kube-aggregator", ""), Now: time.Now,
			Watch: d.c.Loops, Trail: d.trail != nil})
}
