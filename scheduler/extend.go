package scheduler

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// What extenders have to say in decisions. They are asked in the midst of one, as upstream's are: each pod that concerns
// one waits for its answer, and so do those behind it.

// asked are the extenders that have a say about the class's pods.
func (c *class) asked() (list []*Extender) {
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
func (c *class) binder() *Extender {
	for _, e := range c.extenders {
		if e.Bind != "" {
			return e
		}
	}
	return nil
}

// extend asks the extenders which of the slots will do, one after the other, and notes why others won't.
func (st *state) extend(c *class, pod *corev1.Pod, ok []int32, refused []*refusal) ([]int32, error) {
	said := map[string]*refusal{}
	because := func(why string, hopeless bool) *refusal {
		k := fmt.Sprint(hopeless, why)
		if said[k] == nil {
			said[k] = &refusal{plugin: extenders, reasons: []string{why}, hopeless: hopeless}
		}
		return said[k]
	}
	for _, e := range c.extenders {
		if e.Filter == "" || len(ok) == 0 {
			continue
		}
		r, good, err := e.filter(st.ctx, pod, st.nodesOf(ok))
		if err != nil {
			if e.Ignorable {
				continue
			}
			return nil, err
		}
		left := ok[:0]
		for _, i := range ok {
			name := st.slots[i].name
			if good[name] {
				left = append(left, i)
				continue
			}
			why, hopeless := r.FailedAndUnresolvableNodes[name]
			if !hopeless {
				why = r.FailedNodes[name]
			}
			refused[i] = because(why, hopeless)
		}
		ok = left
	}
	return ok, nil
}

func (st *state) nodesOf(slots []int32) []*corev1.Node {
	list := make([]*corev1.Node, len(slots))
	for j, i := range slots {
		list[j] = st.slots[i].node
	}
	return list
}

// maxExtenderScore is the best that an extender can say of a node.
const maxExtenderScore = 10

// rankExtended adds what extenders say. One that fails says nothing.
func (st *state) rankExtended(c *class, pod *corev1.Pod, ok []int32, total []int64) {
	for _, e := range c.extenders {
		if e.Prioritize == "" {
			continue
		}
		var list []hostPriority
		if err := e.call(st.ctx, e.Prioritize, e.args(pod, st.nodesOf(ok)), &list); err != nil {
			continue
		}
		worth := map[string]int64{}
		for _, h := range list {
			worth[h.Host] += h.Score
		}
		for j, i := range ok {
			total[j] += worth[st.slots[i].name] * e.Weight * (maxScore / maxExtenderScore)
		}
	}
}

// agreed asks the extenders which candidates for preemption they agree to, and to which victims.
func (st *state) agreed(t *task, list []*candidate) ([]*candidate, error) {
	for _, e := range t.class.extenders {
		if e.Preempt == "" || len(list) == 0 {
			continue
		}
		left, err := st.agreedBy(e, t, list)
		if err == nil {
			list = left
		} else if !e.Ignorable {
			return nil, err
		}
	}
	return list, nil
}

func (st *state) agreedBy(e *Extender, t *task, list []*candidate) (left []*candidate, err error) {
	args := victimsArgs{Pod: t.pod}
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
		name := st.slots[c.slot].name
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
		next := &candidate{slot: c.slot, breaches: int(m.NumPDBViolations)}
		for _, p := range m.Pods {
			v := known[p.UID]
			if v == nil {
				return nil, fmt.Errorf("extender %s names a victim that was not proposed: %s", e.URL, p.UID)
			}
			next.victims = append(next.victims, v)
		}
		left = append(left, next)
	}
	return left, nil
}
