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
	"log/slog"
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

// Run implements loop.Loop.
func (s *Scheduler) Run(ctx context.Context, env loop.Env) error {
	if env.Log == nil {
		env.Log = slog.Default()
	}
	if env.Now == nil {
		env.Now = time.Now
	}
	r := &runner{cfg: s.cfg, env: env, log: env.Log.With("loop", s.LoopName()), st: newState(), q: newQueue(),
		results: make(chan func(), s.cfg.Parallel), dirty: map[int]bool{}, volumes: map[*task]bool{}, attaching: map[*task]bool{}, ledger: loop.NewLedger(env.Now)}
	for i := range s.cfg.Profiles {
		r.st.profiles[s.cfg.Profiles[i].Name] = &s.cfg.Profiles[i]
	}
	defer env.Watch.Add(s.LoopName(), r.ledger)()
	r.st.release = version.MustParse(env.Client.Kinds().Features().String())
	ctx, stop := context.WithCancel(ctx)
	r.st.ctx, r.st.time = ctx, env.Now
	batches := make(chan client.Batch)
	r.wg.Go(func() { r.listen(ctx, batches) })
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

	ledger *loop.Ledger // what others may know of the pods that have no node

	binds   []job    // writes to do
	remarks []remark // to be written when no bind waits
	flying  int
	results chan func()
	wg      sync.WaitGroup

	dirty     map[int]bool   // slots on which something got better
	volumes   map[*task]bool // decided, but their volumes are not bound yet
	attaching map[*task]bool // decided, but their devices can't be used yet
	flushed   time.Time
}

// feedKinds are the kinds whose changes matter.
func feedKinds() []resource.Kind {
	return []resource.Kind{kinds.Pods, kinds.Nodes, kinds.Namespaces, kinds.Services,
		kinds.PersistentVolumeClaims, kinds.PersistentVolumes, kinds.StorageClasses,
		kinds.CSINodes, kinds.CSIDrivers, kinds.CSIStorageCapacities, kinds.VolumeAttachments,
		kinds.ResourceClaims, kinds.ResourceSlices, kinds.DeviceClasses, kinds.DeviceTaintRules}
}

func (r *runner) listen(ctx context.Context, out chan<- client.Batch) {
	feed := r.env.Client.Feed(feedKinds()...)
	for {
		b, err := feed.Next(ctx)
		if err != nil {
			return // the context ended
		}
		select {
		case out <- b:
		case <-ctx.Done():
			return
		}
	}
}

// spell is how many decisions are taken before the feed is heard again.
const spell = 64

func (r *runner) run(ctx context.Context, batches <-chan client.Batch) {
	r.take(ctx, batches, nil) // nothing can be decided before the first look
	for ctx.Err() == nil {
		busy := r.work(spell)
		r.launch(ctx)
		r.ledger.Queue(r.q.backlog())
		if busy {
			r.poll(batches)
			continue
		}
		timer := time.NewTimer(r.q.wait(r.env.Now(), r.nextNet()))
		r.take(ctx, batches, timer.C)
		timer.Stop()
	}
}

// take waits for something to happen.
func (r *runner) take(ctx context.Context, batches <-chan client.Batch, timer <-chan time.Time) {
	select {
	case <-ctx.Done():
	case b := <-batches:
		r.apply(b)
	case done := <-r.results:
		r.landed(done)
	case <-timer:
		r.net()
	}
}

// poll takes in all that has happened without waiting.
func (r *runner) poll(batches <-chan client.Batch) {
	for {
		select {
		case b := <-batches:
			r.apply(b)
		case done := <-r.results:
			r.landed(done)
		default:
			return
		}
	}
}

// maxBacklog bounds the decisions whose writes have not begun.
const maxBacklog = 1024

// work takes up to n decisions; it says whether there may be more to take.
func (r *runner) work(n int) (more bool) {
	for range n {
		if len(r.binds) >= maxBacklog {
			return false
		}
		t := r.q.pop(r.env.Now())
		if t == nil {
			return false
		}
		r.try(t)
	}
	return true
}

// try decides one pod.
func (r *runner) try(t *task) {
	t.attempts++
	began := r.env.Now()
	slot, f := r.st.decide(t)
	if f == nil && r.st.leftover(t) != nil {
		f = r.st.blocked()
	}
	if f != nil && f.err != nil {
		r.failed(t, f.err)
		return
	}
	if f != nil {
		text := r.reject(t, f)
		r.ledger.Waits(ledgerKey(t), r.env.Now().Sub(began), text, nil, time.Time{})
		return
	}
	r.assign(t, slot)
	r.ledger.Rests(ledgerKey(t), r.env.Now().Sub(began))
}

func ledgerKey(t *task) loop.Key { return loop.KeyOf(kinds.Pods, t.pod) }

// How often the safety nets are looked at: parked pods, and pods that wait for volumes.
const netEvery = 30 * time.Second

func (r *runner) nextNet() time.Duration {
	if len(r.st.waiting)+len(r.volumes)+len(r.attaching) == 0 {
		return time.Hour
	}
	return max(r.flushed.Add(netEvery).Sub(r.env.Now()), time.Second)
}

// net catches pods that no change has woken for long.
func (r *runner) net() {
	now := r.env.Now()
	if now.Sub(r.flushed) < netEvery {
		return
	}
	r.flushed = now
	for c := range r.st.waiting {
		if t := c.waiting.list[0]; now.Sub(t.parkedAt) > longPark {
			r.q.wake(t, now)
		}
	}
	r.checkVolumes()
	r.checkDevices()
}
