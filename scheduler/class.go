package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// A class is all pods that are alike to the scheduler: what one of them finds out holds for the others.
type class struct {
	st       *state
	key      string
	pod      *corev1.Pod // any of them
	labels   labels.Set
	need     *need
	priority int32
	refs     int // tasks of the class

	terms []*term  // the pods' own affinity terms, which bind others too
	hits  []*tally // tallies that count the class's pods
	seen  int      // how many of the state's tallies hits is about

	ready bool // what follows is filled in: some pod of the class had to be decided
	used  int64
	only  map[string]bool
	// How the pods choose nodes.
	required  nodeaffinity.RequiredNodeAffinity
	preferred *nodeaffinity.PreferredSchedulingTerms
	images    []string
	claims    []string
	volumes   *volumes
	filters   []filter
	scores    []score
	land      *lay
	short     map[uint64]*refusal
	board     *board

	waiting taskHeap // parked pods of the class, the most urgent first
	failure *failure // of the newest decision, while nothing has changed
}

// classOf returns the pod's class, made when it is the first of its kind.
func (st *state) classOf(p *corev1.Pod) *class {
	k := template(p)
	c := st.classes[k]
	if c == nil {
		c = &class{st: st, key: k, pod: p, labels: p.Labels, need: needOf(p, st.names), waiting: taskHeap{less: urgent}}
		if p.Spec.Priority != nil {
			c.priority = *p.Spec.Priority
		}
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
	c.ready, c.land, c.board, c.failure, c.volumes = false, nil, nil, nil, nil
	delete(c.st.prepared, c)
}

// Bounds of the classes that are ready to be decided: each costs some tens of bytes per node.
const (
	minPrepared = 64
	maxMemories = 2 << 20 // classes times nodes
)

// prepare fills in what a decision needs.
func (c *class) prepare() {
	c.st.clock++
	c.used = c.st.clock
	if c.ready {
		return
	}
	if len(c.st.prepared) >= max(minPrepared, maxMemories/(len(c.st.slots)+1)) {
		oldest := c
		for other := range c.st.prepared {
			if other.used < oldest.used {
				oldest = other
			}
		}
		oldest.strip()
	}
	p := c.pod
	c.ready, c.only, c.preferred, c.images, c.claims = true, namedNodes(p), preferences(p), imagesOf(p), claimsOf(p)
	c.required = nodeaffinity.GetRequiredNodeAffinity(p)
	c.land = &lay{svcEpoch: c.st.svcEpoch}
	c.st.prepared[c] = true
	c.st.survey(c)
	c.filters, c.scores = c.filters[:0], c.scores[:0]
	for _, f := range filters() {
		if f.applies(c) {
			c.filters = append(c.filters, f)
		}
	}
	for _, s := range scores() {
		if s.applies(c) {
			c.scores = append(c.scores, s)
		}
	}
	c.board = &board{}
}

// check runs the checks of one node by itself.
func (c *class) check(s *slot) *refusal {
	for i := range c.filters {
		if r := c.filters[i].check(c, s); r != nil {
			return r
		}
	}
	return nil
}
