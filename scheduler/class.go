package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds/core"
)

// A class is all pods that are alike to the scheduler: what one of them finds out holds for the others.
type class struct {
	st       *state
	key      string
	pod      *corev1.Pod // any of them
	profile  *Profile    // of the scheduler that they name; nil: upstream's default
	labels   labels.Set
	need     *need
	priority int32
	plain    bool // they ask for nothing that could be devices
	refs     int  // tasks of the class

	terms []*term  // the pods' own affinity terms, which bind others too
	hits  []*tally // tallies that count the class's pods
	seen  int      // how many of the state's tallies hits is about

	// What follows is filled in when some pod of the class has to be decided.
	ready     bool
	used      int64
	out       *outlook
	claims    []string
	extenders []*Extender
	volumes   *volumes // as of volEpoch
	devices   *devices // as of devEpoch
	land      *lay

	volEpoch int64
	devEpoch int64
	waiting  taskHeap // parked pods of the class, the most urgent first
	failure  *failure // of the newest decision, while nothing has changed
}

// classOf returns the pod's class, made when it is the first of its kind.
func (st *state) classOf(p *corev1.Pod) *class {
	k := st.template(p)
	c := st.classes[k]
	if c == nil {
		c = &class{st: st, key: k, pod: p, profile: st.profiles[p.Spec.SchedulerName], labels: p.Labels, need: needOf(p, st.names), waiting: taskHeap{less: urgent}}
		if p.Spec.Priority != nil {
			c.priority = *p.Spec.Priority
		}
		c.plain = !slices.ContainsFunc(c.need.asks, func(a ask) bool { return a.res > resPods && mayBeDevices(st.names.list[a.res]) })
		c.terms = st.termsOf(p)
		st.classes[k] = c
	}
	c.refs++
	return c
}

// release forgets the class with its last pod.
func (c *class) release() {
	if c.refs--; c.refs > 0 {
		return
	}
	delete(c.st.classes, c.key)
	delete(c.st.waiting, c)
	c.strip()
	for _, t := range c.terms {
		c.st.dropTerm(t)
	}
}

// strip frees what deciding the class's pods needed.
func (c *class) strip() {
	if !c.ready {
		return
	}
	c.land.release(c.st)
	c.out.refs--
	c.ready, c.land, c.out, c.failure, c.volumes, c.devices = false, nil, nil, nil, nil, nil
	delete(c.st.prepared, c)
}

// Bounds of what is remembered of the classes that are ready to be decided: tens of bytes per node each.
const (
	minMemories = 64
	maxMemories = 1 << 20 // classes times nodes
)

func (st *state) memories() int { return max(minMemories, maxMemories/(len(st.slots)+1)) }

// prepare fills in what a decision needs.
func (c *class) prepare() {
	c.st.clock++
	c.used = c.st.clock
	if c.ready {
		return
	}
	if len(c.st.prepared) >= c.st.memories() {
		oldest := c
		for other := range c.st.prepared {
			if other.used < oldest.used {
				oldest = other
			}
		}
		oldest.strip()
	}
	c.ready, c.out = true, c.st.outlookOf(c)
	c.extenders = c.asked()
	if c.profile.on(volumePlugin) {
		c.claims = core.ClaimNames(c.pod)
	}
	c.land = &lay{svcEpoch: c.st.svcEpoch}
	c.st.prepared[c] = true
	c.st.survey(c)
}

// refresh brings all that the class remembers up to date.
func (st *state) refresh(c *class) *outlook {
	c.prepare()
	if c.land.svcEpoch != st.svcEpoch && !c.land.strict {
		c.strip()
		c.prepare()
	}
	if c.profile.on(bondPlugin) {
		c.land.others(st, c)
	}
	c.out.refresh()
	c.land.refresh(st, c.out)
	if len(c.claims) > 0 && (c.volumes == nil || c.volEpoch != st.volEpoch) {
		c.volumes, c.volEpoch = st.volumesOf(c), st.volEpoch
	}
	c.refreshDevices()
	return c.out
}

func (c *class) refreshDevices() {
	switch st := c.st; {
	case len(c.pod.Spec.ResourceClaims) == 0 && !c.asksForDevices() || !c.profile.on(devicePlugin):
		c.devices = nil
	case c.devices == nil || c.devEpoch != st.stock.epoch:
		c.devices, c.devEpoch = st.devicesOf(c), st.stock.epoch
	}
}

// check runs the checks of one node that need no look at others.
func (c *class) check(s *slot) *refusal {
	if r := c.out.check(s); r != nil {
		return r
	}
	return c.claimed(s)
}

// claimed runs the checks of what the pods have claims to: volumes and devices.
func (c *class) claimed(s *slot) *refusal {
	if c.volumes != nil {
		if r := c.volumes.check(s); r != nil {
			return r
		}
	}
	if c.devices != nil {
		return c.devices.check(s)
	}
	return nil
}
