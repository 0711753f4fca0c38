package scheduler

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// What extenders have to say in decisions. They are asked in the midst of one, as upstream's are: each pod that concerns
// one waits for its answer, and so do those behind it.

// extendersFor are the extenders that have a say about the class's pods.
func (c *podClass) extendersFor() (list []*Extender) {
	if c.profile == nil {
		return nil
	}
	for _, e := range c.profile.Extenders {
		if e.concerns(c.pod) {
			list = append(list, e)
		}
	}
	return list
}

// binder is the extender that binds the class's pods, if one does.
func (c *podClass) binder() *Extender {
	for _, e := range c.extenders {
		if e.Bind != "" {
			return e
		}
	}
	return nil
}

// extend asks the extenders which of the feasible nodes will do, one after the other, and notes why others won't.
func (cy *cycle) extend() error {
	said := map[string]*refusal{}
	because := func(why string, unresolvable bool) *refusal {
		k := fmt.Sprint(unresolvable, why)
		if said[k] == nil {
			said[k] = &refusal{plugin: extenders, reasons: []string{why}, unresolvable: unresolvable}
		}
		return said[k]
	}
	for _, e := range cy.class.extenders {
		if e.Filter == "" || len(cy.feasible) == 0 {
			continue
		}
		r, good, err := e.filter(cy.st.ctx, cy.pod, cy.nodes())
		if err != nil {
			if e.Ignorable {
				continue
			}
			return err
		}
		left := cy.feasible[:0]
		for _, i := range cy.feasible {
			name := cy.st.nodes[i].name
			if good[name] {
				left = append(left, i)
				continue
			}
			why, unresolvable := r.FailedAndUnresolvableNodes[name]
			if !unresolvable {
				why = r.FailedNodes[name]
			}
			cy.refused[i] = because(why, unresolvable)
		}
		cy.feasible = left
	}
	return nil
}

// nodes are the feasible ones.
func (cy *cycle) nodes() []*corev1.Node {
	list := make([]*corev1.Node, len(cy.feasible))
	for j, i := range cy.feasible {
		list[j] = cy.st.nodes[i].node
	}
	return list
}

// maxExtenderScore is the best that an extender can say of a node.
const maxExtenderScore = 10

// scoreExtended adds what extenders say. One that fails says nothing.
func (cy *cycle) scoreExtended() {
	for _, e := range cy.class.extenders {
		if e.Prioritize == "" {
			continue
		}
		var list []hostPriority
		if err := e.call(cy.st.ctx, e.Prioritize, e.args(cy.pod, cy.nodes()), &list); err != nil {
			continue
		}
		worth := map[string]int64{}
		for _, h := range list {
			worth[h.Host] += h.Score
		}
		for j, i := range cy.feasible {
			cy.total[j] += worth[cy.st.nodes[i].name] * e.Weight * (maxScore / maxExtenderScore)
		}
	}
}

// agreed asks the extenders which candidates for preemption they agree to, and to which victims.
func (p *preemption) agreed(list []*candidate) ([]*candidate, error) {
	for _, e := range p.task.class.extenders {
		if e.Preempt == "" || len(list) == 0 {
			continue
		}
		left, err := p.agreedBy(e, list)
		if err == nil {
			list = left
		} else if !e.Ignorable {
			return nil, err
		}
	}
	return list, nil
}

func (p *preemption) agreedBy(e *Extender, list []*candidate) (left []*candidate, err error) {
	st := p.st
	args := victimsArgs{Pod: p.task.pod}
	if e.Names {
		args.NodeNameToMetaVictims = map[string]*metaVictims{}
	} else {
		args.NodeNameToVictims = map[string]*fullVictims{}
	}
	known := map[string]*task{}
	byNode := map[string]*candidate{}
	for _, c := range list {
		full, meta := &fullVictims{NumPDBViolations: int64(c.breaches)}, &metaVictims{NumPDBViolations: int64(c.breaches)}
		for _, v := range c.victims {
			known[string(v.pod.UID)] = v
			full.Pods, meta.Pods = append(full.Pods, v.pod), append(meta.Pods, metaPod{string(v.pod.UID)})
		}
		name := st.nodes[c.node].name
		byNode[name] = c
		if e.Names {
			args.NodeNameToMetaVictims[name] = meta
		} else {
			args.NodeNameToVictims[name] = full
		}
	}
	var r victimsResult
	if err := e.call(st.ctx, e.Preempt, args, &r); err != nil {
		return nil, err
	}
	for name, m := range r.NodeNameToMetaVictims {
		c := byNode[name]
		if c == nil || m == nil || len(m.Pods) == 0 {
			continue
		}
		next := &candidate{node: c.node, breaches: int(m.NumPDBViolations)}
		for _, x := range m.Pods {
			v := known[x.UID]
			if v == nil {
				return nil, fmt.Errorf("extender %s names a victim that was not proposed: %s", e.URL, x.UID)
			}
			next.victims = append(next.victims, v)
		}
		left = append(left, next)
	}
	return left, nil
}
