package statefulset

import (
	"maps"
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

// A world holds the facts that one pass knows.
type world struct {
	set             *appsv1.StatefulSet
	first, end      int // ordinals that should be: first … end-1
	pods            map[int]*corev1.Pod
	current, update string // names of revisions
	now             time.Time
	counts          bool // see keeper
}

func observe(s *appsv1.StatefulSet, owned []*corev1.Pod, update string, now time.Time) *world {
	w := &world{set: s, pods: map[int]*corev1.Pod{}, current: s.Status.CurrentRevision, update: update, now: now}
	if s.Spec.Ordinals != nil {
		w.first = int(s.Spec.Ordinals.Start)
	}
	w.end = w.first + 1
	if s.Spec.Replicas != nil {
		w.end = w.first + int(*s.Spec.Replicas)
	}
	for _, p := range owned {
		if n := ordinal(s, p); n >= 0 {
			w.pods[n] = p
		}
	}
	if w.current == "" {
		w.current = update
	}
	return w
}

// A todo is one pass's difference between wish and world: first the replicas in their order, then the claims of the pods beyond them,
// then the pods that are to go. What fails leaves the rest for another pass.
type todo struct {
	replicas []step
	beyond   []int
	remove   []*corev1.Pod
	again    time.Duration
	note     string
}

// A step names a replica and what there is to do about it.
type step struct {
	n  int
	do verb
}

type verb string

const (
	create  verb = "create"
	replace verb = "replace" // it ended
	await   verb = "await"
	settle  verb = "settle" // it is as far as it has to be: its labels, its volumes and the owners of its claims are looked at
)

// plan is pure: same world, same answer. In order, it stops at the first pod that has to be waited for.
func plan(w *world) (t todo) {
	for _, p := range w.pods {
		if left := pods.UntilAvailable(p, w.set.Spec.MinReadySeconds, w.now); left > 0 && (t.again == 0 || left < t.again) {
			t.again = left
		}
	}
	if w.fill(&t) && w.shrink(&t) && w.set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		w.roll(&t)
	}
	return t
}

func (w *world) inOrder() bool {
	return w.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
}

// burst bounds how many pods one pass makes, and how many steps it holds in memory: somebody may ask for two billion.
const burst = 500

// fill makes sure that every ordinal has a pod that runs; it tells whether to go on.
func (w *world) fill(t *todo) bool {
	made := 0
	for n := w.first; n < w.end; n++ {
		if made == burst {
			t.again = loop.Now
			return false
		}
		p, do := w.pods[n], await
		switch {
		case p == nil:
			do = create
			made++
		case core.Terminal(p):
			if p.DeletionTimestamp == nil {
				do = replace
			}
		case w.available(p) || !w.inOrder():
			do = settle
		}
		t.replicas = append(t.replicas, step{n, do})
		if do != settle && w.inOrder() {
			if p != nil {
				t.note = p.Name
			}
			return false
		}
	}
	return true
}

// shrink removes the pods beyond the wanted ones, the highest first; it tells whether to go on.
func (w *world) shrink(t *todo) bool {
	extra := slices.DeleteFunc(slices.Sorted(maps.Keys(w.pods)), func(n int) bool { return n >= w.first && n < w.end })
	sick := slices.IndexFunc(extra, func(n int) bool { return !w.available(w.pods[n]) }) // the lowest may go although it is
	t.beyond = extra
	for i := len(extra) - 1; i >= 0; i-- {
		p := w.pods[extra[i]]
		if p.DeletionTimestamp == nil {
			if w.inOrder() && i != sick && !w.available(p) {
				return false
			}
			t.remove = append(t.remove, p)
		}
		if w.inOrder() {
			return false
		}
	}
	return true
}

// roll replaces pods of other revisions, from the highest ordinal down to the partition, and no more at a time than may
// be unavailable.
func (w *world) roll(t *todo) {
	if w.counts && !w.inOrder() {
		w.rollAtOnce(t)
		return
	}
	room := w.maxUnavailable()
	for n := w.end - 1; n >= w.first+w.partition() && room > 0; n-- {
		p := w.pods[n]
		switch {
		case p == nil || p.DeletionTimestamp != nil:
			room--
		case p.Labels[revisions.Hash] != w.update:
			if !slices.Contains(t.replicas, step{n, replace}) {
				t.remove = append(t.remove, p)
			}
			room--
		case !w.available(p):
			room--
		}
	}
}

// rollAtOnce replaces the pods of other revisions that are not available anyway, all of them; then, from the highest ordinal, as many
// available ones as may be unavailable beside all that are.
func (w *world) rollAtOnce(t *todo) {
	room := w.maxUnavailable()
	for n := w.first; n < w.end; n++ {
		if p := w.pods[n]; p == nil || !w.available(p) {
			room--
		}
	}
	lowest := w.first + w.partition()
	for n := w.end - 1; n >= lowest; n-- {
		p := w.pods[n]
		if p != nil && p.DeletionTimestamp == nil && !w.available(p) && p.Labels[revisions.Hash] != w.update &&
			!slices.Contains(t.replicas, step{n, replace}) {
			t.remove = append(t.remove, p)
		}
	}
	for n := w.end - 1; n >= lowest && room > 0; n-- {
		if p := w.pods[n]; p != nil && w.available(p) && p.Labels[revisions.Hash] != w.update {
			t.remove = append(t.remove, p)
			room--
		}
	}
}

func (w *world) partition() int {
	if r := w.set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		return int(*r.Partition)
	}
	return 0
}

func (w *world) maxUnavailable() int {
	r := w.set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.MaxUnavailable == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, w.end-w.first, false)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// revisionOf is the revision that a new pod of the ordinal gets.
func (w *world) revisionOf(n int) string {
	below := w.partition()
	if u := w.set.Spec.UpdateStrategy; u.Type == appsv1.RollingUpdateStatefulSetStrategyType && u.RollingUpdate == nil {
		below = int(w.set.Status.CurrentReplicas) // those that the update has not reached
	}
	if w.set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType && n < w.first+below {
		return w.current
	}
	return w.update
}

func healthy(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning && pods.Ready(p)
}

func (w *world) available(p *corev1.Pod) bool {
	return healthy(p) && pods.UntilAvailable(p, w.set.Spec.MinReadySeconds, w.now) == 0
}

// status returns the status as observed.
func (w *world) status() appsv1.StatefulSetStatus {
	st := appsv1.StatefulSetStatus{ObservedGeneration: w.set.Generation, CurrentRevision: w.current, UpdateRevision: w.update,
		Conditions: w.set.Status.Conditions}
	for _, p := range w.pods {
		st.Replicas++
		if p.Status.Phase == corev1.PodRunning && pods.Ready(p) { // also on its way out
			st.ReadyReplicas++
			if pods.UntilAvailable(p, w.set.Spec.MinReadySeconds, w.now) == 0 {
				st.AvailableReplicas++
			}
		}
		if p.DeletionTimestamp != nil {
			continue
		}
		if p.Labels[revisions.Hash] == w.current {
			st.CurrentReplicas++
		}
		if p.Labels[revisions.Hash] == w.update {
			st.UpdatedReplicas++
		}
	}
	if w.set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType &&
		st.UpdatedReplicas == st.Replicas && st.ReadyReplicas == st.Replicas && int(st.Replicas) == w.end-w.first {
		st.CurrentRevision, st.CurrentReplicas = w.update, st.UpdatedReplicas
	}
	return st
}
