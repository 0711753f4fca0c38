package daemonset

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/controllers/internal/revisions"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
)

// A place is a node and the set's pods there, the oldest first.
type place struct {
	node      string
	run, stay bool
	gone      bool // there is no such node
	pods      []*corev1.Pod
}

// A world holds the facts that one pass knows.
type world struct {
	ds     *appsv1.DaemonSet
	hash   string // of the newest template
	places []*place
	hashes map[string]bool // of the pods
	now    time.Time
}

func observe(ds *appsv1.DaemonSet, hash string, nodes []*corev1.Node, owned []*corev1.Pod, now time.Time) *world {
	w := &world{ds: ds, hash: hash, hashes: map[string]bool{}, now: now}
	at := map[string]*place{}
	for _, n := range nodes {
		p := &place{node: n.Name}
		p.run, p.stay = meant(ds, n)
		at[n.Name] = p
		w.places = append(w.places, p)
	}
	for _, p := range owned {
		w.hashes[p.Labels[revisions.Hash]] = true
		if pl := at[nodeOf(p)]; pl != nil {
			pl.pods = append(pl.pods, p)
		} else if nodeOf(p) != "" { // its node is gone
			gone := &place{node: nodeOf(p), gone: true, pods: []*corev1.Pod{p}}
			at[gone.node] = gone
			w.places = append(w.places, gone)
		}
	}
	for _, pl := range w.places {
		slices.SortFunc(pl.pods, func(a, b *corev1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	return w
}

// A todo is one pass's difference between wish and world.
type todo struct {
	create []string // on these nodes
	remove []*corev1.Pod
	ended  []*corev1.Pod // of those removed
	again  time.Duration
}

const (
	burst    = 250
	cooldown = 10 * time.Second // before a pod that failed is replaced
)

// plan is pure: same world, same answer. Updates wait until every node has its pod.
func plan(w *world) (t todo) {
	for _, pl := range w.places {
		w.settle(pl, &t)
	}
	if len(t.create)+len(t.remove) == 0 && w.ds.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		w.update(&t)
	}
	if len(t.create) > burst || len(t.remove) > burst {
		t.create, t.remove = t.create[:min(burst, len(t.create))], t.remove[:min(burst, len(t.remove))]
		t.again = loop.Now
	}
	for _, pl := range w.places {
		for _, p := range pl.pods {
			if left := pods.UntilAvailable(p, w.ds.Spec.MinReadySeconds, w.now); left > 0 {
				t.later(left)
			}
		}
	}
	return t
}

func (t *todo) later(d time.Duration) {
	if t.again == 0 || d < t.again {
		t.again = d
	}
}

// settle gives one node its pod, or takes away what should not be there.
func (w *world) settle(pl *place, t *todo) {
	if !pl.stay {
		for _, p := range pl.pods {
			if p.DeletionTimestamp == nil && (!pl.gone || p.Spec.NodeName == "") { // who ran on a node that is gone is not for us to judge
				t.remove = append(t.remove, p)
			}
		}
		return
	}
	var old, current []*corev1.Pod
	for _, p := range pl.pods {
		switch {
		case p.DeletionTimestamp != nil:
			return // its place is taken until it is gone
		case core.Terminal(p):
			w.replace(p, t)
		case p.Labels[revisions.Hash] == w.hash:
			current = append(current, p)
		default:
			old = append(old, p)
		}
	}
	all := append(old, current...)
	switch {
	case len(pl.pods) == 0 && pl.run:
		t.create = append(t.create, pl.node)
	case len(all) < 2:
	case w.surge() > 0 && len(old) > 0 && len(current) > 0:
		t.remove = append(t.remove, slices.Concat(old[1:], current[1:])...)
	default:
		slices.SortStableFunc(all, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		t.remove = append(t.remove, all[1:]...)
	}
}

// replace removes a pod that ended, one that failed at once not at once.
//
// Unlike Kubernetes, the pause is the same every time: it needs no memory.
func (w *world) replace(p *corev1.Pod, t *todo) {
	if left := p.CreationTimestamp.Add(cooldown).Sub(w.now); p.Status.Phase == corev1.PodFailed && left > 0 {
		t.later(left)
		return
	}
	t.remove, t.ended = append(t.remove, p), append(t.ended, p)
}

func (w *world) available(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && pods.UntilAvailable(p, w.ds.Spec.MinReadySeconds, w.now) == 0
}

// newest says that the pod has the newest template: by its hash, or by the count of templates that old clients know.
func (w *world) newest(p *corev1.Pod) bool {
	g := w.ds.Annotations[appsv1.DeprecatedTemplateGeneration]
	return p.Labels[revisions.Hash] == w.hash || g != "" && p.Labels[generationLabel] == g
}

// pair finds the node's newest-template pod and its other one.
func (w *world) pair(pl *place) (current, old *corev1.Pod) {
	for _, p := range pl.pods {
		if w.newest(p) {
			current = p
		} else {
			old = p
		}
	}
	return current, old
}

// update replaces old pods as the strategy allows: those that are not available anyway, then others. Those on nodes where the set should
// not run any more take part: they go, and no other comes.
func (w *world) update(t *todo) {
	if w.surge() > 0 {
		w.updateBeside(t)
		return
	}
	unavailable := 0
	var sick, well []*corev1.Pod
	for _, pl := range w.places {
		if pl.idle() {
			continue
		}
		switch current, old := w.pair(pl); {
		case (current == nil) == (old == nil):
			unavailable++
		case current != nil:
			if !w.available(current) {
				unavailable++
			}
		case old.DeletionTimestamp != nil:
			unavailable++
		case !w.available(old):
			unavailable++
			sick = append(sick, old)
		default:
			well = append(well, old)
		}
	}
	t.remove = append(sick, well[:max(0, min(len(well), w.maxUnavailable()-unavailable))]...)
}

// idle says that updates have nothing to do with a node.
func (pl *place) idle() bool { return pl.gone || !pl.run && len(pl.pods) == 0 }

// updateBeside starts new pods beside the old ones, and removes an old one when its new one is available. An old one where none should
// run goes when as many as should are available without it.
func (w *world) updateBeside(t *todo) {
	surging, spare := 0, -w.desired()
	var now, later []string
	var strays []*corev1.Pod
	for _, pl := range w.places {
		if pl.idle() {
			continue
		}
		current, old := w.pair(pl)
		if p := cmp.Or(old, current); p != nil && w.available(p) {
			spare++
		}
		switch {
		case old == nil || old.DeletionTimestamp != nil:
		case current == nil && !pl.run && w.available(old):
			strays = append(strays, old)
		case current == nil && !pl.run || current != nil && w.available(current):
			t.remove = append(t.remove, old)
		case current == nil && !w.available(old):
			now = append(now, pl.node)
		case current == nil:
			later = append(later, pl.node)
		default:
			surging++
		}
	}
	t.remove = append(t.remove, strays[:max(0, min(len(strays), spare))]...)
	t.create = append(now, later[:max(0, min(len(later), w.surge()-surging-len(now)))]...)
}

func (w *world) desired() (n int) {
	for _, pl := range w.places {
		if pl.run {
			n++
		}
	}
	return n
}

func (w *world) surge() int {
	if r := w.ds.Spec.UpdateStrategy.RollingUpdate; r != nil {
		return w.scaled(r.MaxSurge)
	}
	return 0
}

func (w *world) maxUnavailable() int {
	if r := w.ds.Spec.UpdateStrategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
		return w.scaled(r.MaxUnavailable)
	}
	return 1
}

func (w *world) scaled(v *intstr.IntOrString) int {
	if v == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, w.desired(), true)
	if err != nil {
		return 0 // validation refuses such values
	}
	return n
}

// status returns the status as observed.
func (w *world) status() appsv1.DaemonSetStatus {
	st := appsv1.DaemonSetStatus{ObservedGeneration: w.ds.Generation, CollisionCount: w.ds.Status.CollisionCount,
		Conditions: w.ds.Status.Conditions}
	for _, pl := range w.places {
		if !pl.run {
			if len(pl.pods) > 0 && !pl.gone {
				st.NumberMisscheduled++
			}
			continue
		}
		st.DesiredNumberScheduled++
		if len(pl.pods) == 0 {
			continue
		}
		st.CurrentNumberScheduled++
		p := pl.pods[0]
		if current, old := w.pair(pl); current != nil && old != nil && w.available(current) {
			p = current
		}
		if pods.Ready(p) {
			st.NumberReady++
			if w.available(p) {
				st.NumberAvailable++
			}
		}
		if w.newest(p) {
			st.UpdatedNumberScheduled++
		}
	}
	st.NumberUnavailable = st.DesiredNumberScheduled - st.NumberAvailable
	return st
}
