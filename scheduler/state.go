package scheduler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// nodeInfo is upstream's NodeInfo: a node and what is on it. One without a node holds pods whose node is not known (any more).
type nodeInfo struct {
	name                   string
	node                   *corev1.Node
	allocatable, requested []int64 // by number of resource
	nonZeroCPU, nonZeroMem int64
	pods                   []*task
	nominated              []*task // pods that wait for room here after preemption
	ports                  map[port]int
	images                 map[string]int64
}

// state is the scheduler cache: what it knows of the cluster, kept up to date change by change. Nodes have fixed places
// (an index), so that everything about nodes is an array.
type state struct {
	ctx       context.Context // of the run: extenders are asked in it
	time      func() time.Time
	read      resource.Reader
	resources *resourceIndex
	nodes     []*nodeInfo
	byName    map[string]int
	free      []int
	nodeCount int

	tasks   map[key]*task
	classes map[string]*podClass

	topo      *topologyIndex
	images    *imageIndex
	volumes   *volumeIndex
	inventory *deviceInventory
	profiles  map[string]*Profile
	beyond    map[*Profile][]plugin
	release   *version.Version // what pods need of nodes is worked out for it
	on        *features.Set
	svcEpoch  int64 // services

	journal journal
	trial   bool // trying something out: not for the journal

	prepared  map[*podClass]bool
	shedAt    int // so many prepared classes are worth a look at which are needed no more
	verdicts  map[string]*nodeVerdicts
	waiting   map[*podClass]bool // classes with unschedulable pods
	heeding   map[*podClass]bool // those of them that other pods' labels may help: no others hear of each pod
	clock     int64
	nextStart int // after the node chosen last: ties go round
	scratch   scratch
	reduced   corev1.Pod // of the newest demand
	local     corev1.Pod // of the newest local demand
	text      []byte     // room for the keys of both
}

func newState() *state {
	st := &state{ctx: context.Background(), time: time.Now, resources: newResourceIndex(), byName: map[string]int{}, tasks: map[key]*task{},
		classes: map[string]*podClass{}, profiles: map[string]*Profile{}, beyond: map[*Profile][]plugin{},
		release: version.MustParse((*features.Set)(nil).String()), prepared: map[*podClass]bool{}, verdicts: map[string]*nodeVerdicts{},
		waiting: map[*podClass]bool{}, heeding: map[*podClass]bool{}}
	st.topo, st.images, st.volumes, st.inventory = newTopologyIndex(st), newImageIndex(st), newVolumeIndex(st), newDeviceInventory(st)
	return st
}

// noteChange has the caches look at a node again.
func (st *state) noteChange(i int) {
	if !st.trial {
		st.journal.add(i)
	}
}

// now is the number of the next change.
func (st *state) now() int64 { return st.journal.next() }

// indexOf returns the place of a node, made when it is new.
func (st *state) indexOf(name string) int {
	if i, ok := st.byName[name]; ok {
		return i
	}
	i := len(st.nodes)
	if n := len(st.free); n > 0 {
		i, st.free = st.free[n-1], st.free[:n-1]
		st.nodes[i] = newNodeInfo(name)
	} else {
		st.nodes = append(st.nodes, newNodeInfo(name))
		st.topo.grow()
	}
	st.byName[name] = i
	st.noteChange(i)
	return i
}

func newNodeInfo(name string) *nodeInfo {
	return &nodeInfo{name: name, allocatable: make([]int64, resPods+1), requested: make([]int64, resPods+1)}
}

// freeIndex gives up an index without node, pods and nominated pods.
func (st *state) freeIndex(i int) {
	if s := st.nodes[i]; s.node == nil && len(s.pods) == 0 && len(s.nominated) == 0 && s.name != "" {
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
	return st.nodes[i].name
}

// setNode takes in a node; nil means that it is gone. It says whether that could let more pods in.
func (st *state) setNode(name string, node *corev1.Node) (better bool) {
	i := st.indexOf(name)
	s := st.nodes[i]
	old := s.node
	if old == nil && node == nil {
		st.freeIndex(i)
		return false
	}
	s.node = node
	images := st.images.set(s, node)
	if old != nil && node != nil && sameNode(old, node) {
		if images {
			st.noteChange(i)
		}
		return false
	}
	switch {
	case old == nil:
		st.nodeCount++
		st.images.epoch++
	case node == nil:
		st.nodeCount--
		st.images.epoch++
	}
	s.allocatable = make([]int64, resPods+1)
	var has map[string]string
	if node != nil {
		s.allocatable, has = st.resources.vector(node.Status.Allocatable), node.Labels
	}
	for _, d := range st.topo.byKey {
		if d.set(i, has, node != nil); len(d.ids) > 2*len(st.nodes)+1000 {
			d.number(st)
		}
	}
	st.noteChange(i)
	st.freeIndex(i)
	return node != nil
}

// sameNode tells whether two states of a node are the same to the scheduler.
func sameNode(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable && resource.Same(a.Labels, b.Labels) &&
		resource.Same(a.Spec.Taints, b.Spec.Taints) && slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures) &&
		resource.Same(a.Status.Allocatable, b.Status.Allocatable)
}

// addPod counts a pod on a node, assumed or bound.
func (st *state) addPod(t *task, i int) {
	s := st.nodes[i]
	t.node, t.at, t.counted = i, len(s.pods), t.pod.DeletionTimestamp == nil
	s.pods = append(s.pods, t)
	s.add(t.need, 1)
	st.topo.count(t, i, 1)
	st.volumes.countClaims(t, 1)
	st.noteChange(i)
}

// countClaims notes who uses a claim; what classes with claims know of nodes is out of date then.
func (x *volumeIndex) countClaims(t *task, n int) {
	for _, name := range core.ClaimNames(t.pod) {
		k := key{Namespace: t.pod.Namespace, Name: name}
		if x.users[k] += n; x.users[k] <= 0 {
			delete(x.users, k)
		}
		x.epoch++
	}
}

// removePod is the opposite of addPod.
func (st *state) removePod(t *task) {
	i := t.node
	if i < 0 {
		return
	}
	s := st.nodes[i]
	last := len(s.pods) - 1
	s.pods[t.at] = s.pods[last]
	s.pods[t.at].at = t.at
	s.pods[last] = nil
	s.pods = s.pods[:last]
	s.add(t.need, -1)
	st.topo.count(t, i, -1)
	st.volumes.countClaims(t, -1)
	t.node = -1
	st.noteChange(i)
	if !st.trial {
		st.freeIndex(i)
	}
}

// nominate keeps room on a node for a pod; -1 gives it up.
func (st *state) nominate(t *task, i int) {
	if t.nominee == i {
		return
	}
	if old := t.nominee; old >= 0 {
		s := st.nodes[old]
		s.nominated = slices.DeleteFunc(s.nominated, func(x *task) bool { return x == t })
		t.nominee = -1
		st.noteChange(old)
		st.freeIndex(old)
	}
	if i >= 0 {
		t.nominee = i
		st.nodes[i].nominated = append(st.nodes[i].nominated, t)
		st.noteChange(i)
	}
}

// withNominated runs f as if the nominated pods of at least the priority were on the node already; all but one.
func (st *state) withNominated(i int, priority int32, but *task, f func()) {
	var guests []*task
	quiet := st.trial
	st.trial = true
	for _, t := range st.nodes[i].nominated {
		if t != but && t.class.priority >= priority && t.node < 0 {
			st.addPod(t, i)
			guests = append(guests, t)
		}
	}
	f()
	for _, t := range guests {
		st.removePod(t)
	}
	st.trial = quiet
}
