package scheduler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// A slot is a node and what is on it. A slot without a node holds pods whose node is not known (any more).
type slot struct {
	name             string
	node             *corev1.Node
	alloc, used      []int64 // by number of resource
	fairCPU, fairMem int64
	tasks            []*task
	nominees         []*task // pods that wait for room here after preemption
	ports            map[port]int
	images           map[string]int64
}

// state is what the scheduler knows of the cluster, kept up to date change by change. Nodes have fixed places
// (slots), so that everything about nodes is an array.
type state struct {
	ctx    context.Context // of the run: extenders are asked in it
	time   func() time.Time
	read   resource.Reader
	names  *names
	slots  []*slot
	byName map[string]int
	free   []int
	nodes  int

	tasks   map[key]*task
	classes map[string]*class

	topologies map[string]*topology
	tallies    []*tally
	tallyByKey map[string]*tally
	terms      []*term
	termByKey  map[string]*term
	termEpoch  int64
	namespaces map[string]labels.Set

	imageNodes map[string]int // image → nodes that hold it
	imageEpoch int64
	volEpoch   int64          // claims, volumes, storage classes
	svcEpoch   int64          // services
	claimUsers map[key]int    // claim → placed pods that use it
	pledged    map[string]key // volume → claim that was just given it
	stock      *deviceStock
	attachedOn map[string][]attachment // by node; nil: to be looked up again
	driverless map[string]*refusal     // by CSI driver
	profiles   map[string]*Profile
	release    *version.Version // what pods need of nodes is worked out for it

	// journal lists the slots that changed, oldest first; its first entry has number journalAt.
	journal   []int32
	journalAt int64
	quiet     bool // trying something out: not to be noted

	prepared map[*class]bool
	outlooks map[string]*outlook
	waiting  map[*class]bool // classes with parked pods
	clock    int64
	turn     int // the slot after the one chosen last: ties go round
	scratch  scratch
}

func newState() *state {
	return &state{ctx: context.Background(), time: time.Now, names: newNames(), byName: map[string]int{}, tasks: map[key]*task{}, classes: map[string]*class{},
		topologies: map[string]*topology{}, tallyByKey: map[string]*tally{}, termByKey: map[string]*term{},
		namespaces: map[string]labels.Set{}, imageNodes: map[string]int{}, pledged: map[string]key{}, claimUsers: map[key]int{}, stock: newDeviceStock(), release: version.MustParse((*features.Set)(nil).String()), driverless: map[string]*refusal{}, profiles: map[string]*Profile{},
		prepared: map[*class]bool{}, outlooks: map[string]*outlook{}, waiting: map[*class]bool{}}
}

// maxJournal bounds the journal; an outlook that is further behind starts anew.
const maxJournal = 1 << 15

func (st *state) note(i int) {
	if st.quiet {
		return
	}
	if len(st.journal) >= maxJournal {
		half := len(st.journal) / 2
		st.journal = append(st.journal[:0], st.journal[half:]...)
		st.journalAt += int64(half)
	}
	st.journal = append(st.journal, int32(i))
}

// now is the number of the next change.
func (st *state) now() int64 { return st.journalAt + int64(len(st.journal)) }

// slotOf returns the place of a node, made when it is new.
func (st *state) slotOf(name string) int {
	if i, ok := st.byName[name]; ok {
		return i
	}
	i := len(st.slots)
	if n := len(st.free); n > 0 {
		i, st.free = st.free[n-1], st.free[:n-1]
		st.slots[i] = newSlot(name)
	} else {
		st.slots = append(st.slots, newSlot(name))
		st.widen()
	}
	st.byName[name] = i
	st.note(i)
	return i
}

func newSlot(name string) *slot {
	return &slot{name: name, alloc: make([]int64, resPods+1), used: make([]int64, resPods+1)}
}

// vacate frees a slot without node, pods and nominees.
func (st *state) vacate(i int) {
	if s := st.slots[i]; s.node == nil && len(s.tasks) == 0 && len(s.nominees) == 0 && s.name != "" {
		delete(st.byName, s.name)
		s.name = ""
		st.free = append(st.free, i)
	}
}

// nameOf names the node of a slot; -1 is "".
func (st *state) nameOf(i int) string {
	if i < 0 {
		return ""
	}
	return st.slots[i].name
}

// setNode takes in a node; nil means that it is gone. It says whether that could let more pods in.
func (st *state) setNode(name string, node *corev1.Node) (better bool) {
	i := st.slotOf(name)
	s := st.slots[i]
	old := s.node
	if old == nil && node == nil {
		st.vacate(i)
		return false
	}
	s.node = node
	images := st.indexImages(s, node)
	if old != nil && node != nil && sameNode(old, node) {
		if images {
			st.note(i)
		}
		return false
	}
	switch {
	case old == nil:
		st.nodes++
		st.imageEpoch++
	case node == nil:
		st.nodes--
		st.imageEpoch++
	}
	s.alloc = make([]int64, resPods+1)
	var has map[string]string
	if node != nil {
		s.alloc, has = st.names.vector(node.Status.Allocatable), node.Labels
	}
	for _, d := range st.topologies {
		if d.set(i, has, node != nil); len(d.ids) > 2*len(st.slots)+1000 {
			d.number(st)
		}
	}
	st.note(i)
	st.vacate(i)
	return node != nil
}

// sameNode tells whether two states of a node are the same to the scheduler.
func sameNode(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable && equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) && slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// put counts a pod on a slot.
func (st *state) put(t *task, i int) {
	s := st.slots[i]
	t.slot, t.at, t.counted = i, len(s.tasks), t.pod.DeletionTimestamp == nil
	s.tasks = append(s.tasks, t)
	s.add(t.need, 1)
	st.count(t, i, 1)
	st.countClaims(t, 1)
	st.note(i)
}

// countClaims notes who uses a claim; what classes with claims know of nodes is out of date then.
func (st *state) countClaims(t *task, n int) {
	for _, name := range core.ClaimNames(t.pod) {
		k := key{Namespace: t.pod.Namespace, Name: name}
		if st.claimUsers[k] += n; st.claimUsers[k] <= 0 {
			delete(st.claimUsers, k)
		}
		st.volEpoch++
	}
}

// take is the opposite of put.
func (st *state) take(t *task) {
	i := t.slot
	if i < 0 {
		return
	}
	s := st.slots[i]
	last := len(s.tasks) - 1
	s.tasks[t.at] = s.tasks[last]
	s.tasks[t.at].at = t.at
	s.tasks[last] = nil
	s.tasks = s.tasks[:last]
	s.add(t.need, -1)
	st.count(t, i, -1)
	st.countClaims(t, -1)
	t.slot = -1
	st.note(i)
	if !st.quiet {
		st.vacate(i)
	}
}

// nominate keeps room on a slot for a pod; -1 gives it up.
func (st *state) nominate(t *task, i int) {
	if t.nominee == i {
		return
	}
	if old := t.nominee; old >= 0 {
		s := st.slots[old]
		s.nominees = slices.DeleteFunc(s.nominees, func(x *task) bool { return x == t })
		t.nominee = -1
		st.note(old)
		st.vacate(old)
	}
	if i >= 0 {
		t.nominee = i
		st.slots[i].nominees = append(st.slots[i].nominees, t)
		st.note(i)
	}
}

// with runs f as if the nominees of at least the priority were on the slot already; all but one.
func (st *state) with(i int, priority int32, but *task, f func()) {
	var guests []*task
	quiet := st.quiet
	st.quiet = true
	for _, t := range st.slots[i].nominees {
		if t != but && t.class.priority >= priority && t.slot < 0 {
			st.put(t, i)
			guests = append(guests, t)
		}
	}
	f()
	for _, t := range guests {
		st.take(t)
	}
	st.quiet = quiet
}
