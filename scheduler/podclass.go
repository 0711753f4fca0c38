package scheduler

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A podClass is an equivalence class of pods: they are alike to the scheduler, and what one of them finds out holds for the others.
type podClass struct {
	*demand   // its pod is only there while the class is ready
	st        *state
	namespace string
	profile   *Profile // of the scheduler that they name; nil: upstream's default
	labels    labels.Set
	need      *need
	priority  int32
	noDevices bool // they ask for nothing that could be devices
	refs      int  // tasks of the class

	terms        []*existingTerm // the pods' own affinity terms, which bind others too
	counters     []*podCounter   // those that count the class's pods
	countersSeen int             // of the state's counters, how many were looked at for that

	// What follows is filled in when some pod of the class has to be decided.
	ready     bool
	plugins   []plugin // those of the profile that look beyond one node
	lastUsed  int64
	verdicts  *nodeVerdicts
	claims    []string
	extenders []*Extender
	volumes   *volumes // as of volEpoch
	devices   *devices // as of devEpoch
	topology  *topologyTerms

	volEpoch int64
	devEpoch int64
	waiting  taskHeap // unschedulable pods of the class, the most urgent first
	failure  *failure // of the newest decision, while nothing has changed
}

// classOf returns the pod's class, made when it is the first of its kind.
func (st *state) classOf(p *corev1.Pod) *podClass {
	d := st.demandOf(p)
	c := st.classes[d.key]
	if c == nil {
		c = &podClass{demand: d.clone(), st: st, namespace: p.Namespace, profile: st.profiles[p.Spec.SchedulerName], labels: p.Labels,
			waiting: taskHeap{less: urgent}}
		c.need = needOf(c.pod, st.resources)
		if p.Spec.Priority != nil {
			c.priority = *p.Spec.Priority
		}
		c.noDevices = !slices.ContainsFunc(c.need.asks, func(a ask) bool { return a.res > resPods && mayBeDevices(st.resources.list[a.res]) })
		c.terms = st.topo.termsOf(c.pod)
		st.classes[d.key] = c
		if p.Spec.NodeName != "" {
			c.fold()
		}
	}
	c.refs++
	return c
}

// release forgets the class with its last pod.
func (c *podClass) release() {
	if c.refs--; c.refs > 0 {
		return
	}
	delete(c.st.classes, c.key)
	c.st.unwait(c)
	c.unprepare()
	for _, t := range c.terms {
		c.st.topo.dropTerm(t)
	}
}

// unprepare frees what deciding the class's pods needed.
func (c *podClass) unprepare() {
	if !c.ready {
		return
	}
	c.topology.release(c.st)
	c.verdicts.refs--
	c.ready, c.topology, c.verdicts, c.failure, c.volumes, c.devices = false, nil, nil, nil, nil, nil
	delete(c.st.prepared, c)
	c.fold()
}

// shed unprepares the classes that were not decided for longest but for minPrepared, those aside that keep says or that have pods which
// wait: when all has a node, each of a thousand classes of one pod would hold more than the pod itself does.
func (st *state) shed(keep map[*podClass]bool) {
	var list []*podClass
	for c := range st.prepared {
		if c.waiting.Len() == 0 && !keep[c] {
			list = append(list, c)
		}
	}
	coldsort.Func(list, func(a, b *podClass) int { return cmp.Compare(b.lastUsed, a.lastUsed) })
	for _, c := range list[min(minPrepared, len(list)):] {
		c.unprepare()
	}
	st.shedAt = len(st.prepared) + minPrepared
}

// Bounds of what is remembered of the classes that are ready to be decided: tens of bytes per node each.
const (
	minPrepared      = 64
	maxPreparedCells = 1 << 20 // classes times nodes
)

func (st *state) maxPrepared() int { return max(minPrepared, maxPreparedCells/(len(st.nodes)+1)) }

// prepare fills in what a decision needs.
func (c *podClass) prepare() {
	c.st.clock++
	c.lastUsed = c.st.clock
	if c.ready {
		return
	}
	if len(c.st.prepared) >= c.st.maxPrepared() {
		oldest := c
		for other := range c.st.prepared {
			if other.lastUsed < oldest.lastUsed {
				oldest = other
			}
		}
		oldest.unprepare()
	}
	c.unfold()
	c.ready, c.verdicts = true, c.st.verdictsOf(c)
	c.extenders = c.extendersFor()
	c.topology = &topologyTerms{svcEpoch: c.st.svcEpoch}
	c.plugins = c.st.beyondNode(c.profile)
	c.st.prepared[c] = true
	for _, p := range c.plugins {
		if p.prepare != nil {
			p.prepare(c)
		}
	}
}

// beyondNode are the plugins of a profile that look beyond one node.
func (st *state) beyondNode(p *Profile) []plugin {
	list, known := st.beyond[p]
	if !known {
		list = slices.DeleteFunc(p.plugins(), func(x plugin) bool { return x.local() })
		st.beyond[p] = list
	}
	return list
}

// refresh brings all that the class remembers up to date.
func (st *state) refresh(c *podClass) *nodeVerdicts {
	c.prepare()
	if c.topology.svcEpoch != st.svcEpoch && !c.topology.strict {
		c.unprepare()
		c.prepare()
	}
	c.verdicts.refresh()
	c.topology.refresh(st, c.verdicts)
	for _, p := range c.plugins {
		if p.refresh != nil {
			p.refresh(c)
		}
	}
	return c.verdicts
}

// check runs the checks of one node that need no look at others.
func (c *podClass) check(s *nodeInfo) *refusal {
	if r := c.verdicts.check(s); r != nil {
		return r
	}
	return c.checkClaims(s)
}

// checkClaims runs the filters about what the pods have claims to: volumes and devices.
func (c *podClass) checkClaims(s *nodeInfo) *refusal {
	for i := range c.plugins {
		if check := c.plugins[i].claims; check != nil {
			if r := check(c, s); r != nil {
				return r
			}
		}
	}
	return nil
}
