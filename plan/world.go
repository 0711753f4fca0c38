package plan

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/plugins"
	"github.com/kloop-dev/kloop/admission/policy"
	admissionhooks "github.com/kloop-dev/kloop/admission/webhook"
	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers"
	"github.com/kloop-dev/kloop/controllers/definition"
	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/openapi"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/scheduler"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/extensions"
	"github.com/kloop-dev/kloop/server/services"
	"github.com/kloop-dev/kloop/server/workload"
	"github.com/kloop-dev/kloop/sim"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
	"github.com/kloop-dev/kloop/webhook"
)

// A world is a fork that runs: a front door on a store in memory, all loops, and those who stand in for what is outside. It lives in
// one bubble of simulated time, and its methods belong to that bubble's first goroutine.
type world struct {
	seed  *seed
	turns *turns
	set   *resource.Set
	view  *view.View
	srv   *server.Server
	loops loop.Watchers
	begun time.Time    // of the simulation
	ended func() error // says that nobody waits for the answer any more
	first *view.Snapshot

	cursor  *view.Cursor
	look    func(view.Batch) // sees every change, in order
	news    time.Time        // when something last changed that matters
	changed time.Time        // when the change began; zero: not yet
	well    map[string]bool  // cron jobs of which a run that began since has ended well
	steps   int

	mu    sync.Mutex
	luck  *rand.Rand
	asked map[string]int // webhooks, by configuration and name
	errs  []error
	wg    sync.WaitGroup
}

// maxSteps bounds what one simulation does: loops that never agree must not hold up who asks.
const maxSteps = 20_000_000

// newWorld opens the front door on what the seed has, and starts the loops.
func newWorld(ctx context.Context, s *seed, luck uint64, order *turns) (*world, error) {
	w := &world{seed: s, turns: order, set: kinds.SetFor(s.on, nil), luck: rand.New(rand.NewPCG(luck, 2)), asked: map[string]int{},
		well: map[string]bool{}, begun: time.Now(), news: time.Now()}
	mem := memory.New()
	for _, wr := range s.writes {
		if _, err := mem.Write(ctx, wr); err != nil {
			return nil, fmt.Errorf("take over %s: %w", wr.Key, err)
		}
	}
	w.view = view.NewWith(w.set, view.Config{Changes: 1_000_000, Age: 24 * time.Hour, Bytes: 256 << 20})
	ready := make(chan struct{})
	w.wg.Go(func() {
		if err := w.view.Follow(ctx, mem, func() { close(ready) }); err != nil {
			w.fail(fmt.Errorf("follow the store: %w", err))
		}
	})
	<-ready
	fields := apply.NewTracker()
	srv, alloc := extensions.New(server.Config{Kinds: w.set, Store: mem, View: w.view, Sole: true, Random: w.chance, Fields: fields,
		Admission: w.admission(fields), Authorize: anybody{}}, extensions.Config{More: workload.All,
		Network: services.Network{Services: s.services}})
	w.srv = srv
	registry := &crd.Registry{Kinds: w.set, View: w.view, Fields: fields, Docs: openapi.New(w.set)}
	if err := definition.Adopt(registry, w.view.Snapshot()); err != nil {
		s.notes = append(s.notes, fmt.Sprintf("some kinds can't be served: %v", err))
	}
	if err := alloc.Repair(ctx); err != nil {
		return nil, fmt.Errorf("check what is allocated to services: %w", err)
	}
	w.first = w.view.Snapshot()
	w.cursor = w.view.CursorAt(w.first)
	w.run(ctx, registry)
	return w, nil
}

// admission is the chain of every cluster; webhooks are listed, not called.
func (w *world) admission(fields *apply.Tracker) admission.Chain {
	caller := &webhook.Caller{}
	policies := policy.New(policy.Config{Kinds: w.set, Authorize: anybody{}, Overlay: fields.Overlay})
	hooks := admissionhooks.New(admissionhooks.Config{Mutating: caller, Validating: caller, Authorize: anybody{}, Instead: w.wouldAsk})
	chain := plugins.Default(admission.Config{Authorize: anybody{}, Kinds: w.set, Suffix: func() string { return "token" },
		Charge: func(ctx context.Context, q *corev1.ResourceQuota) (*corev1.ResourceQuota, error) {
			return client.UpdateStatus(ctx, w.admin(), kinds.ResourceQuotas, q)
		}})
	return append(admission.Chain{w.seed.expect()},
		chain.Before(policies.Mutating(), hooks.Mutating(), policies.Validating(), hooks.Validating())...)
}

// anybody may do anything: whether the author of a change may make it is not what a plan is asked.
type anybody struct{}

// Authorize implements auth.Authorizer.
func (anybody) Authorize(context.Context, *auth.Attributes) (auth.Decision, string, error) {
	return auth.Allow, "", nil
}

func (w *world) wouldAsk(config, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[config+", "+name]++
}

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) < 10 {
		w.errs = append(w.errs, err)
	}
}

// chance fills p with what the seed says.
func (w *world) chance(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range p {
		p[i] = byte(w.luck.Uint32())
	}
}

// admin is a client that waits for nobody.
func (w *world) admin() *client.Local {
	return &client.Local{Ops: w.srv, View: w.view, Set: w.set, User: &auth.User{Name: "kubernetes-admin",
		Groups: []string{auth.GroupMasters, auth.GroupAuthenticated}}, Manager: "kubectl"}
}

// idle are loops that do not run: they need keys or a network that a fork does not have.
var idle = []string{"root-ca-publisher", "csr-signing", "csr-approving", "csr-serving-approving", "csr-cleaner", "token-cleaner",
	"bootstrap-signer",
	"legacy-serviceaccount-token-cleaner", "cluster-dns", "storage-version-migrator",
	"volume-snapshots", "local-storage-classes"} // it would remove the classes of a kloop, as the fork makes no volumes on disks

// run starts the loops.
func (w *world) run(ctx context.Context, registry *crd.Registry) {
	list := controllers.All(controllers.Config{Kinds: w.set})
	list = append(list, controllers.Entry{Loop: definition.Controller(registry), Account: "system:apiserver", Component: "apiserver"},
		controllers.Entry{Loop: scheduler.New(scheduler.Config{Parallel: 16}), Account: "kube-scheduler", Component: "default-scheduler"})
	for _, l := range append(sim.Loops(), outsiders()...) {
		list = append(list, controllers.Entry{Loop: l, Account: l.LoopName(), Component: "kubelet"})
	}
	recorder := client.NewRecorder(w.hand("events"), "kloop", nil)
	w.wg.Go(func() { recorder.Run(ctx) })
	for i, e := range list {
		if slices.Contains(idle, e.LoopName()) {
			continue
		}
		h := w.hand(e.LoopName())
		dice := rand.New(rand.NewPCG(hashOf(e.LoopName()), uint64(i)))
		var mu sync.Mutex
		env := loop.Env{Client: h, Log: slog.New(slog.DiscardHandler), Events: recorder.For(e.Component, ""), Watch: &w.loops,
			Turn: func(ctx context.Context) error { return w.turns.ask(ctx, &turn{who: h.who, what: "take"}) },
			Chance: func(n int64) int64 {
				mu.Lock()
				defer mu.Unlock()
				return dice.Int64N(n)
			}}
		w.wg.Go(func() {
			if err := e.Run(ctx, env); err != nil {
				w.fail(fmt.Errorf("%s: %w", e.LoopName(), err))
			}
		})
	}
}

func (w *world) hand(who string) *hand {
	local := w.admin()
	local.User = &auth.User{Name: "system:serviceaccount:kube-system:" + who, Groups: []string{auth.GroupMasters}}
	local.Manager = "kube-controller-manager"
	return &hand{Local: local, turns: w.turns, who: who}
}

func hashOf(text string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text)) // never fails
	return sum.Sum64()
}

// settle gives turns until nobody wants one at this moment.
func (w *world) settle() error {
	for {
		synctest.Wait()
		w.observe()
		t := w.turns.next()
		if t == nil {
			return nil
		}
		if w.steps%1024 == 0 && w.ended != nil && w.ended() != nil {
			return w.ended()
		}
		if w.steps++; w.steps > maxSteps {
			return fmt.Errorf("the loops took %d steps and are not done", maxSteps)
		}
		if t.writes {
			time.Sleep(writeTakes)
		}
	}
}

// writeTakes is the time that a write takes in the simulation.
const writeTakes = time.Millisecond

// pass lets time pass until the condition holds, which is looked at whenever something happened, or the end has come.
func (w *world) pass(end time.Time, until func() bool) error {
	for {
		if err := w.settle(); err != nil {
			return err
		}
		if len(w.errs) > 0 {
			return w.errs[0]
		}
		if until() || !time.Now().Before(end) {
			return nil
		}
		w.doze(end)
	}
}

// step is the interval between looks at a world in which nobody waits for a turn.
const step = 50 * time.Millisecond

// glance is the interval between looks at a world in which nobody wants a turn: without nodes there may be no news ever.
const glance = 10 * time.Second

// doze lets time pass until somebody wants a turn.
func (w *world) doze(end time.Time) {
	if w.turns == nil {
		time.Sleep(min(step, time.Until(end)))
		return
	}
	timer := time.NewTimer(min(glance, time.Until(end)))
	defer timer.Stop()
	select {
	case <-w.turns.bell:
	case <-timer.C:
	}
}

// observe takes note of what changed.
func (w *world) observe() {
	for {
		b, err := w.cursor.TryNext()
		if err != nil {
			w.fail(fmt.Errorf("follow what happens: %w", err))
			return
		}
		if len(b.Changes) == 0 {
			return
		}
		for _, c := range b.Changes { // all of them: it takes note of runs that ended well
			if w.matters(c) {
				w.news = time.Now()
			}
		}
		if w.look != nil {
			w.look(b)
		}
	}
}

// matters says that a change is no heartbeat, no event, and nothing that a broken pod does again and again.
// Nor a run of a cron job that goes on as ever.
func (w *world) matters(c view.Change) bool {
	if k := c.Kind; k == resource.Kind(kinds.Leases) || k == resource.Kind(kinds.Events) {
		return false
	}
	e := cmp.Or(c.New, c.Old)
	var read resource.Reader // of pods of jobs alone: a snapshot for every change is dear
	if ref := metav1.GetControllerOfNoCopy(e.Object); ref != nil && ref.Kind == "Job" {
		read = w.view.Snapshot()
	}
	if of := routine(read, e.Object); of != "" {
		w.endedWell(e.Object, of)
		if w.usual(e.Object.GetNamespace(), of) {
			return false
		}
	}
	if c.New == nil || c.Old == nil {
		return true
	}
	p, ok := c.New.Object.(*corev1.Pod)
	return !ok || !restless(p) || p.DeletionTimestamp != nil
}

// restless says that a pod fails again and again, and so never comes to rest.
func restless(p *corev1.Pod) bool {
	return p.Status.StartTime != nil && (p.Annotations[sim.Crash] != "" || p.Annotations[sim.PullError] != "")
}
