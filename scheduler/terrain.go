package scheduler

import "slices"

// A lay is what a class wants of the nodes together: how its pods spread, and whom they like to be near.
type lay struct {
	hard, soft []constraint
	strict     bool // soft constraints are the pod's own: nodes without their labels rank last
	must       []bond
	self       bool // the pods satisfy their own required affinity
	mustNot    []bond
	prefer     []bond
	tallies    []*tally // to be given back

	repel, lure []*term // terms of pods that are there which mean the class
	termEpoch   int64
	termsKnown  bool
	svcEpoch    int64

	spreadWeight, bondWeight int64 // of the rankings
	hardWeight               int64 // of required affinity of pods that are there

	counts []uint32 // by slot, see refresh
	at     int64
}

// survey reads a class's demands.
func (st *state) survey(c *class) {
	c.land.spreadWeight, c.land.bondWeight = c.profile.weight(spreadPlugin, topologyWeight), c.profile.weight(bondPlugin, topologyWeight)
	if c.profile.on(spreadPlugin) {
		c.land.spreads(st, c)
	}
	if c.profile.on(bondPlugin) {
		c.land.bonds(st, c)
	}
}

func (l *lay) release(st *state) {
	for _, ta := range l.tallies {
		st.dropTally(ta)
	}
}

// A terrain is how the pods lie at one moment, as far as a class's filters care.
type terrain struct {
	spread  []level
	must    [][]int32 // by bond, by domain
	first   bool      // no pod to be near exists, and the class's pods will do
	mustNot [][]int32
	repel   [][]int32 // by term, by domain
}

// rough tells whether the class has filters that need to see all nodes.
func (l *lay) rough() bool {
	return len(l.hard)+len(l.must)+len(l.mustNot)+len(l.repel) > 0
}

// look surveys the terrain. It stays right until a pod is put or taken.
func (st *state) look(c *class) *terrain {
	l := c.land
	tr := &st.scratch.terrain
	tr.spread, tr.must, tr.mustNot, tr.repel = tr.spread[:0], tr.must[:0], tr.mustNot[:0], tr.repel[:0]
	for k := range l.hard {
		tr.spread = append(tr.spread, st.levelOf(l, k))
	}
	tr.first = l.self
	for _, x := range l.must {
		sum := st.sum(x.topo, x.tally.per, 1)
		for _, n := range sum {
			tr.first = tr.first && n == 0
		}
		tr.must = append(tr.must, sum)
	}
	for _, x := range l.mustNot {
		tr.mustNot = append(tr.mustNot, st.sum(x.topo, x.tally.per, x.tally.total))
	}
	for _, x := range l.repel {
		tr.repel = append(tr.repel, st.sum(x.topo, x.per, x.total))
	}
	return tr
}

// sum adds up counts by domain; nil when there is nothing to add.
func (st *state) sum(topo *topology, per []int32, total int64) []int32 {
	if total == 0 {
		return nil
	}
	sum := st.scratch.sums(len(topo.ids))
	for i, d := range topo.of {
		if d >= 0 {
			sum[d] += per[i]
		}
	}
	return sum
}

func (tr *terrain) check(l *lay, i int) *refusal {
	if r := tr.checkSpread(l, i); r != nil {
		return r
	}
	return tr.checkBonds(l, i)
}

// checkAmong is check as if the pods that wait for room on the slot after preemption, and are at least as important,
// were there already. Like upstream, it heeds those of this one node.
func (st *state) checkAmong(tr *terrain, c *class, i int) *refusal {
	var guests []*class
	for _, t := range st.slots[i].nominees {
		if t.slot < 0 && t.class.priority >= c.priority {
			guests = append(guests, t.class)
		}
	}
	if len(guests) == 0 {
		return nil
	}
	first := tr.first
	for _, g := range guests {
		tr.shift(c.land, g, i, 1)
	}
	r := tr.check(c.land, i)
	for _, g := range guests {
		tr.shift(c.land, g, i, -1)
	}
	tr.first = first
	return r
}

// shift changes what lies in the slot's domains by n pods of the class g.
func (tr *terrain) shift(l *lay, g *class, i int, n int32) {
	counted := g.counted()
	add := func(sums [][]int32, k int, topo *topology) {
		d := topo.of[i]
		if d < 0 {
			return
		}
		if sums[k] == nil {
			sums[k] = make([]int32, len(topo.ids))
		}
		sums[k][d] += n
	}
	for k := range l.hard {
		x, lv := &l.hard[k], &tr.spread[k]
		if d := x.topo.of[i]; d >= 0 && l.counts[i]&(1<<k) != 0 && slices.Contains(counted, x.tally) {
			lv.sum[d] += n
			lv.lowest(x.minDomains)
		}
	}
	for k := range l.must {
		if slices.Contains(counted, l.must[k].tally) {
			add(tr.must, k, l.must[k].topo)
			tr.first = tr.first && l.must[k].topo.of[i] < 0
		}
	}
	for k := range l.mustNot {
		if slices.Contains(counted, l.mustNot[k].tally) {
			add(tr.mustNot, k, l.mustNot[k].topo)
		}
	}
	for k := range l.repel {
		if slices.Contains(g.terms, l.repel[k]) {
			add(tr.repel, k, l.repel[k].topo)
		}
	}
}

// scratch is memory that one decision needs and the next uses again.
type scratch struct {
	terrain terrain
	pool    [][]int32
	used    int
	okay    []int32
	total   []int64
	refused []*refusal
	numbers []int64
	reals   []float64
	bools   []bool
}

// reset takes all sums back.
func (s *scratch) reset() { s.used = 0 }

// sums returns n zeros that stay the caller's until reset.
func (s *scratch) sums(n int) []int32 {
	if s.used == len(s.pool) {
		s.pool = append(s.pool, nil)
	}
	if cap(s.pool[s.used]) < n {
		s.pool[s.used] = make([]int32, n, n+n/4)
	}
	out := s.pool[s.used][:n]
	s.used++
	clear(out)
	return out
}

func zeros[T any](buf *[]T, n int) []T {
	if cap(*buf) < n {
		*buf = make([]T, n, n+n/4)
	}
	*buf = (*buf)[:n]
	clear(*buf)
	return *buf
}

func (s *scratch) ints(n int) []int64     { return zeros(&s.numbers, n) }
func (s *scratch) floats(n int) []float64 { return zeros(&s.reals, n) }
func (s *scratch) flags(n int) []bool     { return zeros(&s.bools, n) }
