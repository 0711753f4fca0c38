// Package scheduler gives every pending pod a node: snapshot → filter → score → bind.
//
//	reads   Pods, Nodes, Namespaces, Services and what owns pods, claims, volumes and their classes, devices and claims to
//	        them, disruption budgets
//	writes  Pod: binding, status (PodScheduled, nominatedNodeName, extendedResourceClaimStatus), deletion of victims; claims and
//	        volumes: binding; claims to devices: allocation, reservation, and one made where extended resources are devices
//	rule    every pod of ours that fits somewhere is bound to the node that suits it best
//
// One goroutine owns all state and takes all decisions; writes happen beside it, and until the feed shows them
// what they will do is assumed. Pods that are alike share a class, and with it what was found out about nodes.
package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Config tunes a Scheduler; the zero value is upstream's default profile.
type Config struct {
	Profiles []Profile // whose pods are ours, and how they are treated; none: default-scheduler's, upstream's way
	Parallel int       // writes at once; 0: 64
}

// A Scheduler is the loop that assigns pods to nodes.
type Scheduler struct{ cfg Config }

// New returns a scheduler. It does nothing before Run.
func New(cfg Config) *Scheduler {
	if len(cfg.Profiles) == 0 {
		cfg.Profiles = []Profile{{Name: corev1.DefaultSchedulerName}}
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = 64
	}
	return &Scheduler{cfg: cfg}
}

// LoopName implements loop.Loop.
func (s *Scheduler) LoopName() string { return "scheduler" }

// longestPause is the longest pause after a panic; the first is a second, and they double.
const longestPause = time.Minute

// Run implements loop.Loop. After a panic it starts anew, with nothing but what the server knows: one strange object must not end the
// process, nor the scheduling of others for good.
func (s *Scheduler) Run(ctx context.Context, env loop.Env) error {
	if env.Log == nil {
		env.Log = slog.Default()
	}
	if env.Now == nil {
		env.Now = time.Now
	}
	for pause := time.Second; ; pause = min(2*pause, longestPause) {
		began := env.Now()
		err := s.live(ctx, env)
		if err == nil {
			return nil
		}
		if env.Now().Sub(began) > longestPause { // it went well for long
			pause = time.Second
		}
		env.Log.Error("the scheduler panicked and starts anew", "loop", s.LoopName(), "pause", pause, "err", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// live schedules until ctx ends, or until a panic, which is the error.
func (s *Scheduler) live(ctx context.Context, env loop.Env) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	r := newRunner(s.cfg, env, env.Log.With("loop", s.LoopName()))
	for i := range s.cfg.Profiles {
		r.st.profiles[s.cfg.Profiles[i].Name] = &s.cfg.Profiles[i]
	}
	defer env.Watch.Add(s.LoopName(), r.records)()
	r.st.on = env.Client.Kinds().Features()
	r.st.release = version.MustParse(r.st.on.String())
	ctx, stop := context.WithCancel(ctx)
	r.st.ctx, r.st.time = ctx, env.Now
	batches := make(chan client.Batch)
	r.wg.Go(func() { client.Follow(ctx, r.env.Client.Feed(feedKinds()...), batches) })
	defer r.wg.Wait()
	defer stop()
	r.run(ctx, batches)
	return nil
}

// runner is one run of a scheduler. All but the listener and the writes happens on one goroutine.
type runner struct {
	cfg Config
	env loop.Env
	log *slog.Logger
	st  *state
	q   *queue

	records *loop.RecordSource // what others may know of the pods that have no node

	writes         []job // to do, bindings first
	writesInFlight int
	results        chan func()
	wg             sync.WaitGroup

	wake    *waker
	status  *statusWriter
	volumes *volumeBinder
	devices *deviceBinder
	flushed time.Time
	meter   *meter // what is counted; nil: nobody asks
}

func newRunner(cfg Config, env loop.Env, log *slog.Logger) *runner {
	r := &runner{cfg: cfg, env: env, log: log, st: newState(), q: newQueue(), results: make(chan func(), cfg.Parallel),
		records: loop.NewRecordSource(env.Now, "pods", "pods", "persistentvolumeclaims", "persistentvolumes", "resourceclaims.resource.k8s.io")}
	r.meter = newMeter(env.Figures)
	r.q.meter = r.meter
	r.wake, r.status = &waker{r: r, improved: map[int]bool{}}, &statusWriter{r: r}
	r.volumes, r.devices = &volumeBinder{r, map[*task]bool{}}, &deviceBinder{r, map[*task]bool{}}
	return r
}

// feedKinds are the kinds whose changes matter.
func feedKinds() []resource.Kind {
	return []resource.Kind{kinds.Pods, kinds.Nodes, kinds.Namespaces, kinds.Services,
		kinds.PersistentVolumeClaims, kinds.PersistentVolumes, kinds.StorageClasses,
		kinds.CSINodes, kinds.CSIDrivers, kinds.CSIStorageCapacities, kinds.VolumeAttachments,
		kinds.ResourceClaims, kinds.ResourceSlices, kinds.DeviceClasses, kinds.DeviceTaintRules}
}

// decisionsPerRound bounds the decisions that are taken before the feed is heard again.
const decisionsPerRound = 64

func (r *runner) run(ctx context.Context, batches <-chan client.Batch) {
	r.await(ctx, batches, nil) // nothing can be decided before the first look
	for ctx.Err() == nil {
		busy := r.scheduleSome(decisionsPerRound)
		r.startWrites(ctx)
		r.records.Queue(r.q.backlog())
		if busy {
			r.poll(batches)
			continue
		}
		r.shed()
		timer := time.NewTimer(r.q.wait(r.env.Now(), r.nextResync()))
		r.await(ctx, batches, timer.C)
		timer.Stop()
	}
}

// shed lets go of what only decisions need, when none is being carried out.
func (r *runner) shed() {
	if r.writesInFlight+len(r.writes) > 0 || len(r.st.prepared) < r.st.shedAt {
		return
	}
	keep := map[*podClass]bool{}
	for _, waiting := range []map[*task]bool{r.volumes.waiting, r.devices.waiting} {
		for t := range waiting {
			keep[t.class] = true
		}
	}
	r.st.shed(keep)
}

// await waits for something to happen.
func (r *runner) await(ctx context.Context, batches <-chan client.Batch, timer <-chan time.Time) {
	select {
	case <-ctx.Done():
	case b := <-batches:
		r.apply(b)
	case done := <-r.results:
		r.writeDone(done)
	case <-timer:
		r.resync()
	}
}

// poll takes in all that has happened without waiting.
func (r *runner) poll(batches <-chan client.Batch) {
	for {
		select {
		case b := <-batches:
			r.apply(b)
		case done := <-r.results:
			r.writeDone(done)
		default:
			return
		}
	}
}

// maxBacklog bounds the decisions whose writes have not begun.
const maxBacklog = 1024

// scheduleSome takes up to n decisions; it says whether there may be more to take.
func (r *runner) scheduleSome(n int) (more bool) {
	for range n {
		if len(r.writes) >= maxBacklog {
			return false
		}
		t := r.q.pop(r.env.Now())
		if t == nil {
			return false
		}
		r.scheduleOne(t)
	}
	return true
}

// scheduleOne decides one pod.
func (r *runner) scheduleOne(t *task) {
	t.attempts++
	began := r.env.Now()
	slot, f := r.st.decide(t)
	took := r.env.Now().Sub(began)
	if f == nil && r.st.inventory.leftover(t) != nil {
		f = r.st.inventory.blocked()
	}
	if f != nil && f.err != nil {
		r.meter.looked(t.pod, inError, took)
		r.failed(t, f.err)
		return
	}
	if f != nil {
		r.meter.looked(t.pod, unschedulably, took)
		text := r.handleNoFit(t, f)
		r.records.Waits(recordKey(t), r.env.Now().Sub(began), text, nil, time.Time{})
		return
	}
	r.meter.looked(t.pod, scheduled, took)
	r.meter.chosen(t.attempts)
	r.assume(t, slot)
	r.records.Rests(recordKey(t), r.env.Now().Sub(began))
}

func recordKey(t *task) loop.Key { return loop.KeyOf(kinds.Pods, t.pod) }

// How often the safety nets are looked at: unschedulable pods, and pods that wait for volumes.
const resyncEvery = 30 * time.Second

func (r *runner) nextResync() time.Duration {
	if len(r.st.waiting)+len(r.volumes.waiting)+len(r.devices.waiting) == 0 {
		return time.Hour
	}
	return max(r.flushed.Add(resyncEvery).Sub(r.env.Now()), time.Second)
}

// maxOverdue bounds how many pods that are alike are tried again at a time: each try may cost an event and a write.
const maxOverdue = 64

// overdue are pods of the class that have waited for too long. Those that are alike fit nowhere together, but each of them says why.
func (c *podClass) overdue(now time.Time) (list []*task) {
	for _, t := range c.waiting.list {
		if now.Sub(t.unschedulableSince) > maxUnschedulable && len(list) < maxOverdue {
			list = append(list, t)
		}
	}
	return list
}

// resync catches pods that no change has woken for long.
func (r *runner) resync() {
	now := r.env.Now()
	if now.Sub(r.flushed) < resyncEvery {
		return
	}
	r.flushed = now
	for c := range r.st.waiting {
		for _, t := range c.overdue(now) {
			r.q.activate(t, now)
		}
	}
	r.volumes.check()
	r.devices.check()
}
