package node

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
)

// A world is all that a plan depends on.
type world struct {
	pod    *corev1.Pod
	seen   runtimeState
	now    time.Time
	evict  *eviction                                            // the node's decision to end the pod; nil: it may run
	ends   bool                                                 // it is being ended: its last status will tell how
	probed func(name string) probed                             // the last answers of a container's probes
	wait   func(name string, c *container) (left time.Duration) // how much of the pause before a restart is left
}

// probed holds the results of a running container's probes.
type probed struct {
	started bool // the startup probe passed, or there is none
	ready   bool // the readiness probe passes, or there is none
	sick    bool // the startup or liveness probe failed for good
	why     string
	grace   *int64 // seconds that the failed probe leaves the container; nil: the pod's
}

// A todo is one pass's difference between the spec and the runtime.
type todo struct {
	stop    bool   // the pod as a whole ends
	why     string // reason of the pod's end, for its status: DeadlineExceeded…
	message string
	grace   *int64 // for stop: instead of the spec's
	disrupt string // why the node ends it, for the condition DisruptionTarget

	sandbox bool         // a new sandbox is needed; whatever runs must stop first
	kill    []kill       // containers to stop
	drop    []*container // containers that were made and never started: an agent was killed in between
	boxes   []string     // sandboxes that ended, whose successors are there and whose containers are gone
	start   []start      // containers to start now, in this order
	waits   []string     // containers that wait for the end of their pause
	again   time.Duration
	done    bool // no container will run again: the pod has succeeded or failed
}

// idle says that nothing in the runtime is to change.
func (t *todo) idle() bool {
	return !t.stop && !t.sandbox && len(t.kill)+len(t.drop)+len(t.boxes)+len(t.start) == 0
}

type kill struct {
	c     *container
	spec  *corev1.Container
	why   string // text of the event
	grace *int64 // seconds; nil: the pod's
}

type start struct {
	spec *corev1.Container
	init bool
	try  int32 // restart count
	life int   // of the pod

	images map[string]*cri.ImageSpec // what image volumes are mounted from, by their names
	target string                    // id of the container whose processes an ephemeral one sees; "": none
}

// plan is pure: same pod, same runtime, same answers, same time, same plan.
func plan(w world) (t todo) {
	pod := w.pod
	switch {
	case pod.DeletionTimestamp != nil:
		return todo{stop: true, grace: pod.DeletionGracePeriodSeconds}
	case core.Terminal(pod):
		return todo{stop: true, done: true}
	}
	t = nodeEnds(w)
	if t.stop {
		return t
	}
	box := w.seen.box(pod.UID)
	if box == nil {
		return newSandbox(w, t)
	}
	t.drop, t.boxes = expired(w), spent(w)
	planEphemeral(w, &t)
	if planNextLife(w, &t) && planInit(w, &t, box) && !t.done {
		planMain(w, &t, box)
	}
	for i, life := 0, w.life(); i < len(t.start); i++ {
		t.start[i].life = life
	}
	return t
}

// nodeEnds says with what reason the node ends a pod, which is then what its status tells, however its containers end: it evicts
// it, or the pod's deadline has passed. One whose deadline is still to come is looked at again then.
func nodeEnds(w world) (t todo) {
	if w.evict != nil {
		return todo{stop: true, why: w.evict.reason, message: w.evict.message, grace: &w.evict.grace, disrupt: w.evict.disruption}
	}
	left, over := deadline(w)
	if over {
		return todo{stop: true, why: "DeadlineExceeded", message: "Pod was active on the node longer than the specified deadline"}
	}
	return todo{again: left}
}

// expired are the containers that nobody asks for any more: of every name the newest stays and the one before it,
// whose end and log the API can still tell.
func expired(w world) (list []*container) {
	count := map[string]int{}
	for i := range w.seen.containers {
		c := &w.seen.containers[i]
		if count[c.name]++; count[c.name] > 2 && (c.ended() || c.unsure()) {
			list = append(list, c)
		}
	}
	return list
}

// spent lists the sandboxes that nobody asks for any more: those that ended, but for the last of them, which tells of the pod's end, and
// those with containers left.
func spent(w world) (ids []string) {
	kept := false
	for _, b := range w.seen.sandboxes { // the newest first
		if b.uid != w.pod.UID || b.ready {
			continue
		}
		if !kept {
			kept = true
			continue
		}
		if !slices.ContainsFunc(w.seen.containers, func(c container) bool { return c.sandbox == b.id }) {
			ids = append(ids, b.id)
		}
	}
	return ids
}

func deadline(w world) (left time.Duration, over bool) {
	limit, since := w.pod.Spec.ActiveDeadlineSeconds, w.pod.Status.StartTime
	if limit == nil || since == nil {
		return 0, false
	}
	left = since.Add(time.Duration(*limit) * time.Second).Sub(w.now)
	return left, left <= 0
}

// newSandbox asks for a sandbox, unless the pod has run to its end and only its sandbox is gone.
func newSandbox(w world, t todo) todo {
	if over(w) { // its end may have stopped half way: a driver did not take its devices back
		t.stop, t.done = true, true
		return t
	}
	t.sandbox = true
	for i := range w.seen.containers {
		if c := &w.seen.containers[i]; c.mayRun() {
			t.kill = append(t.kill, kill{c: c, why: "The pod sandbox changed: the container must be stopped and made again."})
		}
	}
	return t
}

// over says that every container has run and the restart policy lets none run again.
func over(w world) bool {
	if len(w.seen.containers) == 0 {
		return false
	}
	for i := range w.pod.Spec.InitContainers {
		spec := &w.pod.Spec.InitContainers[i]
		c := w.newest(spec.Name)
		if !podspec.Sidecar(spec) && c != nil && c.ended() && c.exit != 0 && !runsAgain(w.pod, spec, true, c.exit) {
			return true
		}
	}
	for i := range w.pod.Spec.Containers {
		spec := &w.pod.Spec.Containers[i]
		c := w.newest(spec.Name)
		if c == nil || c.mayRun() || runsAgain(w.pod, spec, false, c.exit) {
			return false
		}
	}
	return true
}

// planInit brings the init containers along: in order, one after the other, sidecars staying up. done says that
// the main containers may start.
func planInit(w world, t *todo, box *sandbox) (done bool) {
	list := w.pod.Spec.InitContainers
	started := mainStarted(w)
	if !started && initFailed(w, box) {
		t.done, t.stop = true, true // sidecars before it too, which may have been stopped already
		return false
	}
	for i := range list {
		spec := &list[i]
		c := w.newest(spec.Name)
		if podspec.Sidecar(spec) {
			if !keepUp(w, t, box, spec, true) && !started {
				return false
			}
			continue
		}
		switch {
		case started && c == nil: // it ran before, and has been cleaned up
		case c != nil && c.ended() && c.exit == 0 && (c.sandbox == box.id || started):
		case c != nil && c.unsure():
			t.kill = append(t.kill, lost(c, spec))
			return false
		case c == nil || (c.sandbox != box.id && !c.running()):
			begin(w, t, spec, true)
			return false
		case c.created():
			t.drop = append(t.drop, c)
			t.start = append(t.start, start{spec: spec, init: true, try: c.restarts})
			return false
		case c.running():
			if p := w.probed(spec.Name); p.sick {
				t.kill = append(t.kill, kill{c: c, spec: spec, why: p.why, grace: p.grace})
			}
			return false
		case !runsAgain(w.pod, spec, true, c.exit): // it failed for good
			t.done, t.stop = true, true
			return false
		default:
			retry(w, t, spec, c, true)
			return false
		}
	}
	return true
}

// initFailed says that an init container has failed in the pod's sandbox, and does not run again.
func initFailed(w world, box *sandbox) bool {
	for i := range w.pod.Spec.InitContainers {
		spec := &w.pod.Spec.InitContainers[i]
		c := w.newest(spec.Name)
		if !podspec.Sidecar(spec) && c != nil && c.ended() && c.exit != 0 && c.sandbox == box.id && !runsAgain(w.pod, spec, true, c.exit) {
			return true
		}
	}
	return false
}

// planEphemeral starts the ephemeral containers that were added to the pod: each runs once.
func planEphemeral(w world, t *todo) {
	for i := range w.pod.Spec.EphemeralContainers {
		e := &w.pod.Spec.EphemeralContainers[i]
		c := w.seen.newest(e.Name)
		switch {
		case c == nil:
		case c.created():
			t.drop = append(t.drop, c)
		default:
			continue
		}
		s := start{spec: (*corev1.Container)(&e.EphemeralContainerCommon)}
		if of := w.seen.newest(e.TargetContainerName); of != nil {
			s.target = of.id
		}
		t.start = append(t.start, s)
	}
}

// mainStarted says that a main container has been started in some sandbox: init containers are then not run
// again only because they were cleaned up.
func mainStarted(w world) bool {
	box := w.seen.box(w.pod.UID)
	for i := range w.pod.Spec.Containers {
		if c := w.newest(w.pod.Spec.Containers[i].Name); c != nil && box != nil && c.sandbox == box.id {
			return true
		}
	}
	return false
}

// planMain keeps the main containers as the restart policy wants them; when none will run again the pod ends.
func planMain(w world, t *todo, box *sandbox) {
	alive := false
	for i := range w.pod.Spec.Containers {
		spec := &w.pod.Spec.Containers[i]
		keepUp(w, t, box, spec, false)
		c := w.newest(spec.Name)
		alive = alive || c == nil || !c.ended() || runsAgain(w.pod, spec, false, c.exit)
	}
	if len(t.start)+len(t.waits) == 0 {
		ends(w, t)
	}
	if !alive {
		t.stop, t.done = true, true // sidecars end with the pod
		t.start, t.waits = nil, nil
	}
}

// ends has the events of the last containers say that they end with their pod, and not that a probe ends each: none runs again.
func ends(w world, t *todo) {
	for i := range w.pod.Spec.Containers {
		spec := &w.pod.Spec.Containers[i]
		c := w.newest(spec.Name)
		if c == nil || !c.ended() && !(c.running() && w.probed(spec.Name).sick) {
			return
		}
		exit := c.exit
		if c.running() {
			exit = killedExit
		}
		if runsAgain(w.pod, spec, false, exit) {
			return
		}
	}
	for i := range t.kill {
		t.kill[i].why = "Stopping container " + t.kill[i].c.name
	}
}

// killedExit is the exit code of a container that had to be killed.
const killedExit = 137

// keepUp starts a container that should run and doesn't, and stops one that is sick or out of date. up says that
// it runs and has started up.
func keepUp(w world, t *todo, box *sandbox, spec *corev1.Container, init bool) (up bool) {
	c := w.newest(spec.Name)
	switch {
	case c == nil:
		begin(w, t, spec, init)
	case c.created():
		t.drop = append(t.drop, c)
		t.start = append(t.start, start{spec: spec, init: init, try: c.restarts})
	case c.unsure():
		t.kill = append(t.kill, lost(c, spec))
	case c.running() && c.hash != "" && c.hash != hashOf(spec):
		t.kill = append(t.kill, kill{c: c, spec: spec, why: "Container " + spec.Name + " definition changed, will be restarted"})
	case c.running():
		p := w.probed(spec.Name)
		if p.sick {
			t.kill = append(t.kill, kill{c: c, spec: spec, why: p.why, grace: p.grace})
		}
		return p.started && !p.sick
	case c.ended() && (runsAgain(w.pod, spec, init, c.exit) || c.sandbox != box.id && init):
		retry(w, t, spec, c, init)
	}
	return false
}

// lost stops a container of unknown state: what it ends with then says whether it runs again.
func lost(c *container, spec *corev1.Container) kill {
	return kill{c: c, spec: spec,
		why: "The runtime does not know the state of container " + spec.Name + ": it is stopped before it can run again"}
}

// begin starts a container that the pod's present life has not had, nor its sandbox. The one whose end began this life keeps its pause.
func begin(w world, t *todo, spec *corev1.Container, init bool) {
	last := w.seen.newest(spec.Name)
	if last != nil && w.former(last) && w.restartsAll(last) {
		retry(w, t, spec, last, init)
		return
	}
	try := tries(last)
	if old := previous(w.pod, spec.Name); last == nil && old != nil { // somebody took it away from the runtime
		try = nextTry(old)
	}
	t.start = append(t.start, start{spec: spec, init: init, try: try})
}

// retry starts an ended container again when its pause is over.
func retry(w world, t *todo, spec *corev1.Container, c *container, init bool) {
	if left := w.wait(spec.Name, c); left > 0 {
		t.waits = append(t.waits, spec.Name)
		if t.again == 0 || left < t.again {
			t.again = left
		}
		return
	}
	t.start = append(t.start, start{spec: spec, init: init, try: tries(c)})
}

// tries is the restart count of the next container.
func tries(c *container) int32 {
	if c == nil {
		return 0
	}
	return c.restarts + 1
}

// hashOf names what a running container can't change about itself: another value means that it is made again.
func hashOf(c *corev1.Container) string {
	h := fnv.New32a()
	h.Write([]byte(c.Name + "\x00" + c.Image))
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}
