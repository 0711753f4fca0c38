package scheduler

import (
	"fmt"
	"slices"
	"strings"
)

// A failure says why no node can take a pod.
type failure struct {
	epochs     epochs // when it was found
	nodes      int
	pre        string     // refused without a look at nodes
	early      bool       // before it may queue: others than why are not told, as of a pod with gates
	refused    []*refusal // by node
	wakes      event      // what may cure it
	preemption string     // why preemption does not help; "": not known
	text       string     // the message, once it was asked for
	err        error      // it could not be found out
}

// epochs are the numbers of the newest changes of each sort.
type epochs struct{ nodes, terms, volumes, devices int64 }

func (st *state) epochs() epochs {
	return epochs{st.now(), st.topo.termEpoch, st.volumes.epoch, st.inventory.epoch}
}

// decide returns the node that suits the task best, or the reason why none does.
func (st *state) decide(t *task) (int, *failure) {
	c := t.class
	if f := c.failure; f != nil && t.nominee < 0 && c.ready && len(c.extenders) == 0 && f.epochs == st.epochs() {
		return -1, f
	}
	o := st.refresh(c)
	st.scratch.reset()
	if why, early := c.unsatisfiable(); why != "" {
		return -1, c.fail(&failure{pre: why, early: early, wakes: wakers()[volumeBinding] | wakers()[dynamicResources]})
	}
	cy := &cycle{st: st, class: c, pod: t.pod, verdicts: o}
	if i := t.nominee; i >= 0 && st.fits(t, i) {
		cy.feasible, cy.refused = []int32{int32(i)}, zeros(&st.scratch.refused, len(o.verdict))
		if err := cy.extend(); err == nil && len(cy.feasible) > 0 {
			return i, nil
		}
	}
	st.scratch.reset()
	best, err := cy.selectNode()
	if err != nil {
		return -1, &failure{nodes: st.nodeCount, err: err}
	}
	if best >= 0 {
		return best, nil
	}
	if c.devices != nil && c.devices.failed != nil { // an error, no verdict on the nodes: it is tried again soon
		return -1, &failure{nodes: st.nodeCount, err: c.devices.failed}
	}
	f := &failure{refused: make([]*refusal, len(o.verdict))}
	var last *refusal
	for i, r := range o.verdict {
		if r == nil {
			r = cy.refused[i]
		}
		if f.refused[i] = r; r != last {
			f.wakes |= wakers()[r.plugin]
			last = r
		}
	}
	return -1, c.fail(f)
}

// unsatisfiable says why no node at all will do, and whether the pod's time has not even come.
func (c *podClass) unsatisfiable() (why string, early bool) {
	if c.volumes != nil && c.volumes.broken != "" {
		return c.volumes.broken, false
	}
	if c.devices != nil {
		return c.devices.broken, c.devices.early
	}
	return "", false
}

// fail remembers a failure for the next pod of the class.
func (c *podClass) fail(f *failure) *failure {
	f.nodes, f.epochs, c.failure = c.st.nodeCount, c.st.epochs(), f
	return f
}

// fits says whether the task fits on one node as things are, other pods' nominations for it heeded, its own not.
func (st *state) fits(t *task, i int) (ok bool) {
	if st.nodes[i].node == nil {
		return false
	}
	if ok = t.class.passes(i); ok && len(st.nodes[i].nominated) > 0 {
		st.withNominated(i, t.class.priority, t, func() { ok = t.class.passes(i) })
	}
	return ok
}

// passes runs all filters on one node.
func (c *podClass) passes(i int) bool {
	if c.check(c.st.nodes[i]) != nil {
		return false
	}
	if !c.topology.filters() {
		return true
	}
	used := c.st.scratch.used
	ok := c.checkTopology(c.countTopology(), i) == nil
	c.st.scratch.used = used
	return ok
}

// message is the text that people read: how many nodes there are, and what each lacks.
func (f *failure) message() string {
	if f.err != nil {
		return f.err.Error()
	}
	if f.nodes == 0 {
		return "no nodes available to schedule pods"
	}
	if f.pre != "" {
		return fmt.Sprintf("0/%d nodes are available: %s.", f.nodes, f.pre)
	}
	if f.text != "" {
		return f.text
	}
	alike := map[*refusal]int{}
	for _, r := range f.refused {
		alike[r]++
	}
	count := map[string]int{}
	for r, n := range alike {
		for _, why := range r.reasons {
			count[why] += n
		}
	}
	f.text = histogram(f.nodes, count)
	return f.text
}

func histogram(nodes int, count map[string]int) string {
	list := make([]string, 0, len(count))
	for why, n := range count {
		list = append(list, fmt.Sprintf("%d %s", n, why))
	}
	slices.Sort(list)
	text := fmt.Sprintf("0/%d nodes are available:", nodes)
	if len(list) > 0 {
		text += " " + strings.Join(list, ", ") + "."
	}
	return text
}
