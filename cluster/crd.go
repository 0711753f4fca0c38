package cluster

import (
	"context"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/controllers/definition"
	"github.com/kloop-dev/kloop/loop"
)

// define serves the kinds that users define: those that are there before the API opens, others as they come.
// It runs in every server, as what is served is known per process.
func (d *frontDoor) define(ctx context.Context, ready func()) error {
	if err := definition.Adopt(d.custom, d.read()); err != nil {
		d.log.Warn("some kinds are not served", "err", err)
	}
	ready()
	user := &auth.User{Name: "system:apiserver", Groups: []string{auth.GroupMasters}}
	return definition.Controller(d.custom).Run(ctx, loop.Env{Client: d.local(user, "kube-apiserver"), Log: d.log,
		Events: d.events.For("apiserver", ""), Now: time.Now, Watch: d.c.Loops})
}
