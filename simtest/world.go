package simtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

// A World is the cluster that one run of an operator lives in. Its methods may be called from any goroutine of the run.
type World struct {
	c    *Config
	door *door
	tr   *http.Transport
	life *life // of which this World is the operator's end; nil for the run's own

	run *run
}

// run is shared by all lives of one run.
type run struct {
	mu      sync.Mutex
	faults  []Fault
	count   map[string]int // requests and events so far, by site
	asked   []string       // sites in the order of requests
	places  []place
	cut     time.Time // the operator reaches nobody until then
	trouble time.Time // some fault lasts until then
	back    int       // the next life's caches are so many changes behind
	stale   time.Duration
	off     bool // no more faults
	hit     []Fault
	wrong   []string
	now     *life
	deaths  int
	lives   sync.WaitGroup
	seen    *witness
	luck    *rand.Rand
}

// Rest returns how to reach the cluster, with whatever goes wrong for this life of the operator. The configuration is the caller's.
func (w *World) Rest() *rest.Config {
	var rt http.RoundTripper = w.tr
	if w.life != nil {
		rt = &wire{w: w, next: w.tr}
	}
	return &rest.Config{Host: "http://simulation", Transport: rt, QPS: -1}
}

// Options returns o changed so that a manager lives in a simulation: it listens nowhere, logs nothing unless
// o has a logger, and its controllers may be made again under the same names. Set LeaderElection in o to test with it.
func (w *World) Options(o ctrl.Options) ctrl.Options {
	o.Metrics, o.HealthProbeBindAddress = metricsserver.Options{BindAddress: "0"}, "0"
	o.Controller.SkipNameValidation = new(true)
	if o.Scheme == nil {
		o.Scheme = w.c.Scheme
	}
	if o.Logger.GetSink() == nil {
		o.Logger = ctrl.Log.WithSink(crlog.NullLogSink{})
	}
	if o.MapperProvider == nil {
		o.MapperProvider = w.mapper
	}
	if o.GracefulShutdownTimeout == nil {
		o.GracefulShutdownTimeout = new(5 * time.Second)
	}
	return o
}

// fail records that something is wrong.
func (r *run) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wrong) < 8 {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
}

// pass counts one more of a site and returns the fault that hits it; nil if none does.
func (r *run) pass(site string) *Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[site]++
	n := r.count[site]
	r.asked = append(r.asked, site)
	if r.off {
		return nil
	}
	r.places = append(r.places, place{site, n})
	for i := range r.faults {
		f := &r.faults[i]
		if f.Site == site && f.N == n {
			r.hit = append(r.hit, *f)
			if until := time.Now().Add(f.For); until.After(r.trouble) {
				r.trouble = until
			}
			return f
		}
	}
	return nil
}

// lasts chooses how long a watch lasts, within the bounds of client-go's reflectors. They would draw several at once, in
// an order that is Go's.
func (r *run) lasts() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return 5*time.Minute + time.Duration(r.luck.Int64N(int64(5*time.Minute)))
}

// step is a moment between two things that the user does; some faults come then.
func (w *World) step() {
	w.door.turns.wait(w.door.ctx, "step")
	f := w.run.pass("step")
	if f == nil {
		return
	}
	switch f.Kind {
	case Restart, StaleStart:
		w.crash(f)
	case Partition:
		w.run.mu.Lock()
		w.run.cut = time.Now().Add(f.For)
		w.run.mu.Unlock()
	case ClockStep:
		w.door.mu.Lock()
		w.door.step += f.Jump
		w.door.mu.Unlock()
	case NodeLoss:
		w.loseNode(f)
	}
}

// loseNode silences the first node for a while.
func (w *World) loseNode(f *Fault) {
	if w.c.Nodes == 0 {
		return
	}
	mark := func(value string) {
		n := resource.Get(w.door.Read(), kinds.Nodes, "", "sim-0")
		if n == nil {
			return
		}
		n = resource.Clone(n)
		n.Annotations[sim.Lost] = value
		n.ResourceVersion = ""
		if _, err := w.door.Update(w.door.ctx, kinds.Nodes, n, ""); err != nil {
			w.run.fail("mark a node: %v", err)
		}
	}
	mark("yes")
	w.door.all.Go(func() {
		if sleep(w.door.ctx, f.For) {
			mark("")
		}
	})
}

// troubled says whether some fault lasts, or was over less than so long ago.
func (w *World) troubled(since time.Duration) bool {
	w.run.mu.Lock()
	defer w.run.mu.Unlock()
	return time.Now().Before(w.run.trouble.Add(since))
}

// calm ends all that goes wrong.
func (w *World) calm() {
	w.run.mu.Lock()
	w.run.off = true
	until := w.run.trouble
	w.run.mu.Unlock()
	time.Sleep(time.Until(until) + time.Second)
	w.door.mu.Lock()
	w.door.step = 0
	w.door.mu.Unlock()
}

var errCut = errors.New("connection refused by the simulation")
