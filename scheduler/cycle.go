package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// A cycle is one decision, upstream's scheduling cycle: filter all nodes, score those that are left, take the best. Its memory is the
// state's scratch, used again by the next.
type cycle struct {
	st       *state
	class    *podClass
	pod      *corev1.Pod
	verdicts *nodeVerdicts
	feasible []int32    // nodes that pass all filters, in order
	refused  []*refusal // by node: what the filters that look beyond it say
	total    []int64    // by feasible node: the sum of its scores
}

func (cy *cycle) mem() *scratch { return &cy.st.scratch }

// selectNode picks the highest score among the nodes that pass all filters; -1: none does. Ties go round.
//
// Unlike Kubernetes, every node is looked at, not a sample, and ties are not broken by chance.
func (cy *cycle) selectNode() (int, error) {
	c, l, o := cy.class, cy.class.topology, cy.verdicts
	cy.feasible = cy.mem().feasible[:0]
	switch {
	case l.filters() || c.volumes != nil || c.devices != nil || len(c.extenders) > 0:
		cy.filterAll()
	case !l.scores() && !slices.ContainsFunc(o.nonZero, func(n int) bool { return n > 0 }):
		return cy.selectByBase(), nil
	default:
		for i, r := range o.verdict {
			if r == nil {
				cy.feasible = append(cy.feasible, int32(i))
			}
		}
	}
	cy.mem().feasible = cy.feasible
	if len(c.extenders) > 0 {
		if err := cy.extend(); err != nil {
			return -1, err
		}
	}
	switch len(cy.feasible) {
	case 0:
		return -1, nil
	case 1:
		return int(cy.feasible[0]), nil
	}
	return cy.scoreNodes(), nil
}

// filterAll runs the filters that look beyond one node on those that pass the others.
func (cy *cycle) filterAll() {
	c := cy.class
	counts := c.countTopology()
	cy.refused = zeros(&cy.mem().refused, len(cy.verdicts.verdict))
	for i, r := range cy.verdicts.verdict {
		if r != nil {
			continue
		}
		if r = c.checkTopology(counts, i); r == nil {
			r = c.checkClaims(cy.st.nodes[i])
		}
		if r == nil && len(cy.st.nodes[i].nominated) > 0 && c.topology.filters() {
			r = c.checkWithNominated(counts, i)
		}
		if r != nil {
			cy.refused[i] = r
			continue
		}
		cy.feasible = append(cy.feasible, int32(i))
	}
}

// selectByBase is selectNode for a class whose nodes need no comparison.
func (cy *cycle) selectByBase() int {
	o := cy.verdicts
	best, top := -1, int64(-1)
	scan := func(from, to int) {
		base := o.base[from:to]
		for i, r := range o.verdict[from:to] {
			if r == nil && base[i] > top {
				best, top = from+i, base[i]
			}
		}
	}
	start := min(cy.st.nextStart, len(o.verdict))
	scan(start, len(o.verdict))
	scan(0, start)
	return best
}

// scoreNodes adds up all scores of the feasible nodes and returns the best.
func (cy *cycle) scoreNodes() int {
	o, ok := cy.verdicts, cy.feasible
	cy.total = zeros(&cy.mem().total, len(ok))
	for j, i := range ok {
		cy.total[j] = o.base[i]
	}
	for k, sc := range o.scores {
		if sc.norm != absolute && o.nonZero[k] > 0 {
			normalize(o.raw[k], ok, cy.total, sc.weight, sc.norm == less)
		}
	}
	for _, p := range cy.class.plugins {
		if p.scoreAll != nil {
			p.scoreAll(cy, p.weight)
		}
	}
	if len(cy.class.extenders) > 0 {
		cy.scoreExtended()
	}
	from, _ := slices.BinarySearch(ok, int32(cy.st.nextStart))
	best, top := -1, int64(0) // extenders may say less than nothing of a node
	for n := range ok {
		j := n + from
		if j >= len(ok) {
			j -= len(ok)
		}
		if best < 0 || cy.total[j] > top {
			best, top = int(ok[j]), cy.total[j]
		}
	}
	return best
}

// normalize adds scores scaled so that the highest is maxScore, or worth nothing when less is better.
func normalize(raw []int64, ok []int32, total []int64, weight int64, less bool) {
	high := int64(0)
	for _, i := range ok {
		high = max(high, raw[i])
	}
	for j, i := range ok {
		v := raw[i]
		if high > 0 {
			v = maxScore * v / high
		}
		if less {
			v = maxScore - v
		}
		total[j] += weight * v
	}
}
