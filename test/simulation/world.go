package simulation

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
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
	ofpods "github.com/kloop-dev/kloop/server/workload"
	"github.com/kloop-dev/kloop/sim"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
)

// A world is a whole cluster and all that goes wrong with it.
type world struct {
	seed  uint64
	steps *interleaving
	hist  history
	set   *resource.Set
	mem   *memory.Store
	loops loop.Watchers
	ctx   context.Context
	all   sync.WaitGroup // every goroutine

	view    *view.View
	srv     *server.Server
	custom  *crd.Registry
	cursor  *view.Cursor
	powered context.Context    // as long as the server has power
	power   context.CancelFunc // ends that

	mu      sync.Mutex
	step    time.Duration // by how much clocks are wrong
	cut     map[string]time.Time
	running map[string]*life
	errs    []error
	hooks   *hooks
	closers []func()

	plans    []plan
	faults   *faults // nil: all is well now
	prompt   bool    // all act on what is, from the start to the end
	exact    bool    // and all is heard at once, and clocks are right
	mutation *mutation
	checks   *checks
	rng      *rand.Rand // the server's
}

// A life is one run of a loop, from start to crash.
type life struct {
	client *faultyClient
	stop   context.CancelFunc
	done   chan struct{}
}

// A plan is something that the run does at a time.
type plan struct {
	at  time.Time
	why string
	do  func()
}

// newWorld returns a cluster with what every cluster has. Nothing runs yet.
func newWorld(ctx context.Context, seed uint64, log io.Writer, mutation *mutation) *world {
	w := &world{seed: seed, steps: newInterleaving(seed), mem: memory.New(), ctx: ctx, cut: map[string]time.Time{},
		running: map[string]*life{}, mutation: mutation, rng: rand.New(rand.NewPCG(seed, 2))}
	w.hist.changed = map[resource.Kind]int{}
	w.steps.log, w.steps.held = log, w.heldBack
	w.checks = newChecks(w)
	w.hooks = w.serveHooks()
	w.boot()
	w.found()
	return w
}

// boot starts a server on the store.
func (w *world) boot() {
	ctx, power := context.WithCancel(w.ctx)
	w.set = kinds.NewSet()
	v, ready := view.New(w.set), make(chan struct{})
	w.view, w.powered, w.power = v, ctx, power
	w.all.Go(func() {
		if err := v.Follow(ctx, w.mem, func() { close(ready) }); err != nil {
			w.fail("the view: %v", err)
		}
	})
	<-ready
	fields := apply.NewTracker()
	caller := w.hooks.caller()
	rules, asked := policy.New(policy.Config{Kinds: w.set, Authorize: anybody{}}),
		admissionhooks.New(admissionhooks.Config{Mutating: caller, Validating: caller})
	srv, alloc := extensions.New(server.Config{Kinds: w.set, Store: slowStore{w.mem, w}, View: v, Sole: true, Now: w.now,
		Random: w.chance, Fields: fields,
		Admission: chain(w.now, w.charge).Before(asked.Mutating(), rules.Validating(), asked.Validating())},
		extensions.Config{More: ofpods.All})
	w.custom = &crd.Registry{Kinds: w.set, View: v, Fields: fields, Docs: openapi.New(w.set)}
	if err := definition.Adopt(w.custom, v.Snapshot()); err != nil {
		w.fail("adopt: %v", err)
	}
	if err := alloc.Repair(ctx); err != nil {
		w.fail("repair: %v", err)
	}
	w.srv = srv
	w.all.Go(func() { alloc.RepairLoop(ctx) })
	snap := v.Snapshot()
	w.cursor = v.CursorAt(snap)
	w.hist.add(moment{snap: snap})
}

// plugins is the chain that every cluster has, with names that chance has no part in.
func chain(now func() time.Time, charge func(context.Context, *corev1.ResourceQuota) (*corev1.ResourceQuota, error)) admission.Chain {
	return plugins.Default(admission.Config{Now: now, Charge: charge, Suffix: func() string { return "token" }})
}

// charge stores what a quota has used. It is no step: the quota plugin holds a lock meanwhile.
func (w *world) charge(ctx context.Context, q *corev1.ResourceQuota) (*corev1.ResourceQuota, error) {
	return client.UpdateStatus(context.WithValue(ctx, callerKey{}, nil), w.admin(), kinds.ResourceQuotas, q)
}

// chance fills p with what the seed says.
func (w *world) chance(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range p {
		p[i] = byte(w.rng.Uint32())
	}
}

// now returns the simulated time.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.step)
}

// admin is a client whose calls nothing can go wrong with.
func (w *world) admin() *client.Local {
	return &client.Local{Ops: w.srv, View: w.view, Set: w.set, User: &auth.User{Name: "admin", Groups: []string{auth.GroupMasters}},
		Manager: "admin"}
}

// client returns the client of the loop called who.
func (w *world) client(who string, kill context.CancelFunc) *faultyClient {
	local := w.admin()
	local.User = &auth.User{Name: who, Groups: []string{auth.GroupMasters}}
	local.Manager = who
	return &faultyClient{Local: local, w: w, who: who, kill: kill, seen: w.hist.newest()}
}

// found writes what every cluster has.
func (w *world) found() {
	if _, err := w.admin().Create(w.ctx, kinds.PriorityClasses,
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: urgent}, Value: 1000}); err != nil {
		w.fail("make priority class %s: %v", urgent, err)
	}
	for _, mode := range []storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(string(mode))}, Provisioner: disks,
			VolumeBindingMode: &mode,
			ReclaimPolicy:     new(corev1.PersistentVolumeReclaimDelete)}
		if _, err := w.admin().Create(w.ctx, kinds.StorageClasses, class); err != nil {
			w.fail("make storage class %s: %v", class.Name, err)
		}
	}
	if _, err := w.admin().Create(w.ctx, kinds.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: disks}}); err != nil {
		w.fail("make CSI driver %s: %v", disks, err)
	}
	for _, ns := range []string{"default", "kube-system", corev1.NamespaceNodeLease} {
		if _, err := w.admin().Create(w.ctx, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
			w.fail("make namespace %s: %v", ns, err)
		}
	}
}

// entries is the table of loops, new ones.
func (w *world) entries() (list []loop.Loop) {
	for _, e := range controllers.All(controllers.Config{Kinds: w.set, RootCA: []byte("ca"), Metrics: w.metrics()}) {
		list = append(list, e.Loop)
	}
	list = append(list, definition.Controller(w.custom), scheduler.New(scheduler.Config{}))
	return append(append(list, provisioner()...), sim.Loops()...)
}

// start starts a loop cold.
func (w *world) start(name string) {
	list := w.entries()
	at := slices.IndexFunc(list, func(l loop.Loop) bool { return l.LoopName() == name })
	l := list[at]
	ctx, stop := context.WithCancel(w.ctx)
	run := &life{client: w.client(name, stop), stop: stop, done: make(chan struct{})}
	if w.faults != nil {
		run.client.lag = w.faults.lag(w)
	}
	if w.mutation != nil {
		run.client.lag = max(run.client.lag, w.mutation.lag)
	}
	w.mu.Lock()
	w.running[name] = run
	w.mu.Unlock()
	dice := rand.New(rand.NewPCG(w.seed, uint64(at)<<32+uint64(w.steps.taken)))
	var mu sync.Mutex
	env := loop.Env{Client: run.client, Log: slog.New(slog.DiscardHandler), Now: w.now, Resync: resync, Watch: &w.loops,
		Turn: func(ctx context.Context) error { _, err := w.steps.ask(ctx, w.ctx, name, "take", nil); return err },
		Chance: func(n int64) int64 {
			mu.Lock()
			defer mu.Unlock()
			return dice.Int64N(n)
		}}
	w.all.Go(func() {
		defer close(run.done)
		if err := l.Run(ctx, env); err != nil {
			w.fail("%s: %v", name, err)
		}
	})
	w.steps.settle()
}

// resync is the interval at which a loop looks at everything, to catch what it never heard of.
const resync = 8 * time.Minute

// crash ends a loop in the middle of whatever it does, and has it start again later.
func (w *world) crash(name string, after time.Duration) {
	run := w.running[name]
	if run == nil {
		return
	}
	w.steps.note("%s crashes", name)
	run.stop()
	w.restartAfter(name, run, after)
}

// restartAfter has a loop start again when nothing of it is left. The server may still clean up after its last call.
func (w *world) restartAfter(name string, run *life, after time.Duration) {
	w.mu.Lock()
	delete(w.running, name)
	w.mu.Unlock()
	w.doubt(name)
	killed := time.Now()
	var begin func()
	begin = func() {
		select {
		case <-run.done:
			w.start(name)
			return
		default:
		}
		if time.Since(killed) > longestEnd {
			w.fail("%s did not end with its context", name)
			return
		}
		w.plan(100*time.Millisecond, name+" ends", begin)
	}
	w.plan(after, name+" starts", begin)
}

// longestEnd is the time that a loop may take to end: as long as the server may for what it does once a call was given up.
const longestEnd = 2 * time.Minute

// reboot ends the whole process and starts it again on the same store.
func (w *world) reboot() {
	w.steps.note("all crashes")
	for _, name := range w.names() {
		w.crash(name, time.Second)
	}
	w.power()
	w.steps.settle()
	w.observe()
	w.steps.note("all starts")
	w.boot()
}

// names lists the loops that run.
func (w *world) names() (list []string) {
	for name := range w.running {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// plan has something done later.
func (w *world) plan(after time.Duration, why string, do func()) {
	w.plans = append(w.plans, plan{time.Now().Add(after), why, do})
	slices.SortStableFunc(w.plans, func(a, b plan) int { return a.at.Compare(b.at) })
}

// run takes steps until the condition holds; it says whether it did within the limit.
func (w *world) run(limit time.Duration, until func() bool) bool {
	for end := time.Now().Add(limit); ; {
		w.steps.settle()
		w.observe()
		for len(w.plans) > 0 && !w.plans[0].at.After(time.Now()) {
			p := w.plans[0]
			w.plans = w.plans[1:]
			w.steps.note("plan: %s", p.why)
			p.do()
			w.steps.settle()
			w.observe()
		}
		if until() || len(w.errs) > 0 {
			return true
		}
		now := time.Now()
		if !now.Before(end) {
			return false
		}
		t, soonest := w.steps.next(now)
		if t == nil {
			w.rest(end, soonest)
			continue
		}
		w.take(t)
		time.Sleep(w.steps.span(10*time.Microsecond, 2*time.Millisecond))
	}
}

// rest lets time go on until somebody asks for a step, or may take one.
func (w *world) rest(end, soonest time.Time) {
	if !soonest.IsZero() && soonest.Before(end) {
		end = soonest
	}
	if len(w.plans) > 0 && w.plans[0].at.Before(end) {
		end = w.plans[0].at
	}
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-w.steps.bell:
	case <-timer.C:
	}
}

// observe takes note of what the last step did.
func (w *world) observe() {
	for {
		b, err := w.cursor.TryNext()
		if err != nil {
			w.fail("the run's own cursor: %v", err)
			return
		}
		if len(b.Changes) == 0 {
			return
		}
		m := moment{snap: b.Snapshot, changes: b.Changes}
		w.hist.add(m)
		w.checks.look(m)
	}
}

// fail records that the cluster broke a promise.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) < 10 {
		w.errs = append(w.errs, fmt.Errorf(format, args...))
	}
}

// close ends everything.
func (w *world) close() {
	w.power()
	for _, f := range w.closers {
		f()
	}
	for _, run := range w.running {
		run.stop()
	}
}

// slowStore is the store as the server sees it: each write is a step, and what comes back may not be the
// truth.
type slowStore struct {
	*memory.Store
	w *world
}

var errNoAnswer = errors.New("the store did not answer")

// Write implements store.Store.
func (s slowStore) Write(ctx context.Context, wr store.Write) (int64, error) {
	c, _ := ctx.Value(callerKey{}).(*faultyClient)
	if c == nil {
		return s.Store.Write(ctx, wr)
	}
	f, err := s.w.steps.ask(ctx, s.w.powered, c.who, "write "+wr.Key, nil)
	if err != nil {
		return 0, err
	}
	if f == refuse {
		return 0, errNoAnswer
	}
	s.w.checks.writing(c.who)
	rev, err := s.Store.Write(ctx, wr)
	sum := fnv.New64a()
	sum.Write(wr.Value)
	s.w.steps.note("revision %d %s %x %v", rev, wr.Key, sum.Sum64(), err)
	switch {
	case f == forget && err == nil:
		s.w.doubt(c.who)
		return 0, errNoAnswer
	case f == die && c.kill != nil:
		c.kill()
		s.w.plan(0, c.who+" died", func() { s.w.restart(c.who) })
		return 0, context.Canceled
	}
	return rev, err
}
