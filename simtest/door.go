package simtest

import (
	"context"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/plugins"
	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers"
	"github.com/kloop-dev/kloop/controllers/definition"
	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/internal/pipe"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/openapi"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/scheduler"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/extensions"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/server/workload"
	"github.com/kloop-dev/kloop/sim"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
)

// door is a cluster without sockets: the API server on a pipe, all loops, the scheduler and the simulated nodes.
type door struct {
	*client.Local
	mem   *memory.Store
	view  *view.View
	pipes *pipe.Listener
	turns *turns
	seed  uint64
	stop  context.CancelFunc
	ctx   context.Context
	all   sync.WaitGroup

	mu   sync.Mutex
	step time.Duration // by how much the server's clock is wrong
	luck *rand.Rand
}

var admin = &auth.User{Name: "admin", Groups: []string{auth.GroupMasters, auth.GroupAuthenticated}}

// Authenticate believes everybody to be an administrator.
func (d *door) Authenticate(*http.Request) (*auth.User, bool, error) { return admin, true, nil }

// Authorize lets all pass.
func (d *door) Authorize(context.Context, *auth.Attributes) (auth.Decision, string, error) {
	return auth.Allow, "", nil
}

func (d *door) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Add(d.step)
}

func (d *door) chance(p []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range p {
		p[i] = byte(d.luck.Uint32())
	}
}

// openDoor starts a cluster. It must be called in a bubble.
func openDoor(seed uint64, nodes int) (*door, error) {
	set := kinds.NewSet()
	d := &door{mem: memory.New(), view: view.New(set), pipes: pipe.Listen(), seed: seed, luck: rand.New(rand.NewPCG(seed, 2))}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.turns = newTurns(d.ctx, seed)
	d.all.Go(d.turns.run)
	ready := make(chan struct{})
	d.all.Go(func() { _ = d.view.Follow(d.ctx, d.mem, func() { close(ready) }) })
	<-ready
	fields, docs := apply.NewTracker(), openapi.New(set)
	srv, alloc := extensions.New(server.Config{Kinds: set, Store: d.mem, View: d.view, Sole: true, Now: d.now,
		Random: d.chance, Fields: fields,
		NoWatchList: true, // clients list first, and may be given an older state: what follows from that is to be seen
		Authorize:   d, Admission: plugins.Default(admission.Config{Now: d.now})}, extensions.Config{More: workload.All})
	ops := orderly{srv, d.turns, "front door"}
	d.Local = &client.Local{Ops: ops, View: d.view, Set: set, User: admin, Manager: "simtest"}
	if err := alloc.Repair(d.ctx); err != nil {
		return d, err
	}
	for _, name := range []string{"default", "kube-system", corev1.NamespaceNodeLease} {
		if _, err := d.Create(d.ctx, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return d, err
		}
	}
	d.runLoops(&crd.Registry{Kinds: set, View: d.view, Fields: fields, Docs: docs}, nodes > 0)
	handler := httpapi.New(httpapi.Config{Evictions: workload.Eviction, Ops: ops, Kinds: set, Authn: d, Authz: d, OpenAPI: docs})
	d.all.Go(func() { _ = handler.Serve(d.ctx, d.pipes, nil) })
	return d, sim.Nodes(d.ctx, d, nodes)
}

// pauses returns the dice of one loop.
func (d *door) pauses(loop string) func(int64) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(loop))
	dice := rand.New(rand.NewPCG(d.seed, h.Sum64()))
	var mu sync.Mutex
	return func(n int64) int64 {
		mu.Lock()
		defer mu.Unlock()
		return dice.Int64N(n)
	}
}

// pulse is the time between two heartbeats of the nodes: well below the 40 seconds after which one counts as lost,
// and no less, as it costs.
const pulse = 15 * time.Second

// beat renews the lease that simulated nodes share, as their own loop does three times as often.
func (d *door) beat() {
	for more := true; more; more = sleep(d.ctx, pulse) {
		now := metav1.NowMicro()
		if have := resource.Get(d.Read(), kinds.Leases, corev1.NamespaceNodeLease, sim.LeaseName); have != nil {
			next := resource.Clone(have)
			next.Spec.RenewTime = &now
			_, _ = d.Update(d.ctx, kinds.Leases, next, "") // one that fails is made good by the next
			continue
		}
		_, _ = d.Create(d.ctx, kinds.Leases, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: sim.LeaseName},
			Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(40)), RenewTime: &now}})
	}
}

// runLoops starts all loops.
func (d *door) runLoops(custom *crd.Registry, nodes bool) {
	list := []loop.Loop{scheduler.New(scheduler.Config{}), definition.Controller(custom)}
	for _, e := range controllers.All(controllers.Config{Kinds: d.Set, RootCA: []byte("ca")}) {
		list = append(list, e.Loop)
	}
	if nodes {
		list = append(list, sim.Loops()...)
		list = slices.DeleteFunc(list, func(l loop.Loop) bool { return l.LoopName() == "sim-heartbeat" })
		d.all.Go(d.beat)
	}
	for _, l := range list {
		own := *d.Local
		own.Ops = orderly{d.Local.Ops.(orderly).Operations, d.turns, l.LoopName()}
		env := loop.Env{Client: &own, Log: slog.New(slog.DiscardHandler), Now: d.now, Chance: d.pauses(l.LoopName())}
		d.all.Go(func() { _ = l.Run(d.ctx, env) })
	}
}

// close ends the cluster and waits for it.
func (d *door) close() {
	d.stop()
	_ = d.pipes.Close()
	d.all.Wait()
	_ = d.mem.Close()
}

// kindOf finds a kind by its plural; nil if it is not served.
func kindOf(set *resource.Set, plural string) resource.Kind {
	for _, k := range set.All() {
		if k.Info().Plural == plural {
			return k
		}
	}
	return nil
}
