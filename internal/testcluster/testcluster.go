// Package testcluster is the API server of a test: the front door with all its extensions on a store in memory, and the watch cache
// that follows it. Loops, nodes and the wire are for the test to add. It starts in a millisecond, in simulated time too.
package testcluster

import (
	"context"
	"testing"

	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/extensions"
	"github.com/kloop-dev/kloop/server/services"
	"github.com/kloop-dev/kloop/server/workload"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
)

// Config holds what a test may change. Kinds, Store, View and Fields that are left out are all built-in kinds, an empty store in
// memory, a view that notices objects that were changed in it, and field ownership as ever. There is no admission unless it
// is given.
type Config struct {
	server.Config
	Extensions extensions.Config
}

// A Cluster is a running API server, and a client of it in the same process, with all rights.
type Cluster struct {
	*client.Local
	Server    *server.Server
	Allocator *services.Allocator
}

// Start starts one, which ends with the test. Then nobody may have changed an object that others share.
func Start(t testing.TB, edit ...func(c *Config)) *Cluster {
	t.Helper()
	c := Config{Config: server.Config{Kinds: kinds.NewSet(), Store: memory.New(), Fields: apply.NewTracker(), Sole: true}}
	c.Extensions.More = workload.All
	for _, f := range edit {
		f(&c)
	}
	if c.View == nil {
		_, bench := t.(*testing.B)
		c.View = view.NewWith(c.Kinds, view.Config{Guard: !bench})
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- c.View.Follow(ctx, c.Store, func() { close(ready) }) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := view.CheckFrozen(c.View.Snapshot()); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-done:
		done <- err
		t.Fatal("the view does not follow the store")
	}
	srv, alloc := extensions.New(c.Config, c.Extensions)
	admin := &auth.User{Name: "admin", Groups: []string{auth.GroupMasters}}
	return &Cluster{Local: &client.Local{Ops: srv, View: c.View, Set: c.Kinds, User: admin, Manager: "test"}, Server: srv, Allocator: alloc}
}
