package scheduler

import "slices"

// topologyTerms are the spread constraints and the inter-pod affinity of a class.
type topologyTerms struct {
	hard, soft   []constraint
	strict       bool // soft constraints are the pod's own: nodes without their labels rank last
	required     []affinityTerm
	matchesSelf  bool // the pods satisfy their own required affinity
	antiRequired []affinityTerm
	preferred    []affinityTerm
	counters     []*podCounter // to be given back

	existingAnti, existingPreferred []*existingTerm // terms of pods that are there which mean the class
	termEpoch                       int64
	termsKnown                      bool
	svcEpoch                        int64

	hardWeight int64 // of required affinity of pods that are there

	counts []uint32 // by node, see refresh
	at     int64
}

func (l *topologyTerms) release(st *state) {
	for _, ta := range l.counters {
		st.topo.dropCounter(ta)
	}
}

// topologyCounts counts the pods in each domain at one moment, as far as a class's filters care.
type topologyCounts struct {
	spread       []spreadCounts
	required     [][]int32 // by term, by domain
	noneExists   bool      // no pod to be near exists, and the class's pods will do
	antiRequired [][]int32
	existingAnti [][]int32 // by term, by domain
}

// filters says whether the class has filters that need counts over all nodes.
func (l *topologyTerms) filters() bool {
	return len(l.hard)+len(l.required)+len(l.antiRequired)+len(l.existingAnti) > 0
}

// scores says whether the class has scores that need counts over all nodes.
func (l *topologyTerms) scores() bool {
	return len(l.soft)+len(l.preferred)+len(l.existingPreferred) > 0
}

// countTopology counts anew. The counts stay right until a pod is added or removed.
func (c *podClass) countTopology() *topologyCounts {
	l, mem := c.topology, &c.st.scratch
	tr := &mem.counts
	tr.spread, tr.required, tr.antiRequired, tr.existingAnti = tr.spread[:0], tr.required[:0], tr.antiRequired[:0], tr.existingAnti[:0]
	for k := range l.hard {
		tr.spread = append(tr.spread, l.countSpread(mem, k))
	}
	tr.noneExists = l.matchesSelf
	for _, x := range l.required {
		sum := mem.byDomain(x.topo, x.tally.per, 1)
		for _, n := range sum {
			tr.noneExists = tr.noneExists && n == 0
		}
		tr.required = append(tr.required, sum)
	}
	for _, x := range l.antiRequired {
		tr.antiRequired = append(tr.antiRequired, mem.byDomain(x.topo, x.tally.per, x.tally.total))
	}
	for _, x := range l.existingAnti {
		tr.existingAnti = append(tr.existingAnti, mem.byDomain(x.topo, x.per, x.total))
	}
	return tr
}

// checkTopology runs the filters about pods on other nodes.
func (c *podClass) checkTopology(tr *topologyCounts, i int) *refusal {
	for k := range c.plugins {
		if check := c.plugins[k].topology; check != nil {
			if r := check(tr, c.topology, i); r != nil {
				return r
			}
		}
	}
	return nil
}

// checkWithNominated is checkTopology as if the pods that wait for room on the node after preemption, and are at least as important,
// were there already. Like upstream, it heeds those of this one node.
func (c *podClass) checkWithNominated(tr *topologyCounts, i int) *refusal {
	var guests []*podClass
	for _, t := range c.st.nodes[i].nominated {
		if t.node < 0 && t.class.priority >= c.priority {
			guests = append(guests, t.class)
		}
	}
	if len(guests) == 0 {
		return nil
	}
	first := tr.noneExists
	for _, g := range guests {
		tr.shift(c.topology, g, i, 1)
	}
	r := c.checkTopology(tr, i)
	for _, g := range guests {
		tr.shift(c.topology, g, i, -1)
	}
	tr.noneExists = first
	return r
}

// shift changes what lies in the node's domains by n pods of the class g.
func (tr *topologyCounts) shift(l *topologyTerms, g *podClass, i int, n int32) {
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
	for k := range l.required {
		if slices.Contains(counted, l.required[k].tally) {
			add(tr.required, k, l.required[k].topo)
			tr.noneExists = tr.noneExists && l.required[k].topo.of[i] < 0
		}
	}
	for k := range l.antiRequired {
		if slices.Contains(counted, l.antiRequired[k].tally) {
			add(tr.antiRequired, k, l.antiRequired[k].topo)
		}
	}
	for k := range l.existingAnti {
		if slices.Contains(g.terms, l.existingAnti[k]) {
			add(tr.existingAnti, k, l.existingAnti[k].topo)
		}
	}
}

// scratch is memory that one decision needs and the next uses again.
type scratch struct {
	counts   topologyCounts
	pool     [][]int32
	used     int
	feasible []int32
	total    []int64
	refused  []*refusal
	numbers  []int64
	reals    []float64
	bools    []bool
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

// byDomain adds up counts per node by domain; nil when there is nothing to add.
func (s *scratch) byDomain(topo *topology, per []int32, total int64) []int32 {
	if total == 0 {
		return nil
	}
	sum := s.sums(len(topo.ids))
	for i, d := range topo.of {
		if d >= 0 {
			sum[d] += per[i]
		}
	}
	return sum
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
