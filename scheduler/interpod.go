package scheduler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	noCompany = &refusal{plugin: interPodAffinity, reasons: []string{"node(s) didn't match pod affinity rules"}, hopeless: true}
	crowded   = &refusal{plugin: interPodAffinity, reasons: []string{"node(s) didn't match pod anti-affinity rules"}}
	unwelcome = &refusal{plugin: interPodAffinity, reasons: []string{"node(s) didn't satisfy existing pods anti-affinity rules"}}
)

// A term is an affinity term of pods that are there, which binds or attracts those that come. Pods share terms.
type term struct {
	matcher
	key    string
	topo   *topology
	repels bool  // required anti-affinity; otherwise it ranks
	hard   bool  // required affinity: what it is worth is up to who decides
	weight int64 // below zero: keeps away
	per    []int32
	total  int64
	refs   int
}

// affinityTerms are a pod's terms, parsed.
type affinityTerms struct {
	must, mustNot, prefer []podTerm
}

type podTerm struct {
	matcher
	topoKey string
	weight  int64
}

func parseTerms(p *corev1.Pod) (out affinityTerms) {
	a := p.Spec.Affinity
	if a == nil {
		return out
	}
	if x := a.PodAffinity; x != nil {
		for i := range x.RequiredDuringSchedulingIgnoredDuringExecution {
			out.must = append(out.must, parseTerm(p, &x.RequiredDuringSchedulingIgnoredDuringExecution[i], 0))
		}
		for i := range x.PreferredDuringSchedulingIgnoredDuringExecution {
			w := &x.PreferredDuringSchedulingIgnoredDuringExecution[i]
			out.prefer = append(out.prefer, parseTerm(p, &w.PodAffinityTerm, int64(w.Weight)))
		}
	}
	if x := a.PodAntiAffinity; x != nil {
		for i := range x.RequiredDuringSchedulingIgnoredDuringExecution {
			out.mustNot = append(out.mustNot, parseTerm(p, &x.RequiredDuringSchedulingIgnoredDuringExecution[i], 0))
		}
		for i := range x.PreferredDuringSchedulingIgnoredDuringExecution {
			w := &x.PreferredDuringSchedulingIgnoredDuringExecution[i]
			out.prefer = append(out.prefer, parseTerm(p, &w.PodAffinityTerm, -int64(w.Weight)))
		}
	}
	return out
}

func parseTerm(p *corev1.Pod, t *corev1.PodAffinityTerm, weight int64) podTerm {
	m := matcher{namespaces: slices.Sorted(slices.Values(t.Namespaces)),
		selector: selectorOf(t.LabelSelector, p, t.MatchLabelKeys, t.MismatchLabelKeys)}
	if t.NamespaceSelector != nil {
		m.nsSel, _ = metav1.LabelSelectorAsSelector(t.NamespaceSelector) // nil when it can't be parsed: selects none
	} else if len(m.namespaces) == 0 {
		m.namespaces = []string{p.Namespace}
	}
	return podTerm{m, t.TopologyKey, weight}
}

// termsOf interns the terms by which pods like this one bind others.
func (st *state) termsOf(p *corev1.Pod) (list []*term) {
	parsed := parseTerms(p)
	for _, t := range parsed.mustNot {
		list = append(list, st.termOf(t, true, false))
	}
	for _, t := range parsed.must {
		list = append(list, st.termOf(t, false, true))
	}
	for _, t := range parsed.prefer {
		list = append(list, st.termOf(t, false, false))
	}
	return list
}

func (st *state) termOf(t podTerm, repels, hard bool) *term {
	k := fmt.Sprint(repels, " ", hard, " ", t.weight, " ", t.topoKey, " ", t.matcher.String())
	tm := st.termByKey[k]
	if tm == nil {
		tm = &term{matcher: t.matcher, key: k, topo: st.topologyOf(t.topoKey), repels: repels, hard: hard, weight: t.weight, per: make([]int32, len(st.slots))}
		st.termByKey[k] = tm
		st.terms = append(st.terms, tm)
		st.termEpoch++
	}
	tm.refs++
	return tm
}

func (st *state) dropTerm(tm *term) {
	if tm.refs--; tm.refs > 0 {
		return
	}
	delete(st.termByKey, tm.key)
	st.terms = slices.DeleteFunc(st.terms, func(x *term) bool { return x == tm })
	st.termEpoch++
}

// A bond is one of the class's own terms, ready to be counted.
type bond struct {
	topo   *topology
	tally  *tally
	weight int64
}

// bonds turns the class's terms into what is counted. Required affinity counts pods that match all its terms.
func (l *lay) bonds(st *state, c *class) {
	parsed := parseTerms(c.pod)
	if len(parsed.must) > 0 {
		all := parsed.must[0].matcher
		for _, t := range parsed.must[1:] {
			all.also = append(all.also, t.matcher)
		}
		l.self = all.matches(st, c.pod.Namespace, c.labels)
		together := st.tallyOf(all, false)
		l.tallies = append(l.tallies, together)
		for _, t := range parsed.must {
			l.must = append(l.must, bond{topo: st.topologyOf(t.topoKey), tally: together})
		}
	}
	for _, t := range parsed.mustNot {
		l.mustNot = append(l.mustNot, l.bond(st, t))
	}
	for _, t := range parsed.prefer {
		l.prefer = append(l.prefer, l.bond(st, t))
	}
}

func (l *lay) bond(st *state, t podTerm) bond {
	ta := st.tallyOf(t.matcher, false)
	l.tallies = append(l.tallies, ta)
	return bond{st.topologyOf(t.topoKey), ta, t.weight}
}

// others finds the terms of pods that are there which mean the class.
func (l *lay) others(st *state, c *class) {
	if l.termEpoch == st.termEpoch && l.termsKnown {
		return
	}
	hard, soft := c.profile.hardAffinity(), c.profile == nil || !c.profile.OwnPreferences
	l.hardWeight, l.termsKnown, l.termEpoch, l.repel, l.lure = hard, true, st.termEpoch, l.repel[:0], l.lure[:0]
	for _, tm := range st.terms {
		switch {
		case !tm.matches(st, c.pod.Namespace, c.labels):
		case tm.repels:
			l.repel = append(l.repel, tm)
		case tm.hard && hard == 0, !tm.hard && !soft:
		default:
			l.lure = append(l.lure, tm)
		}
	}
}

// checkBonds is the filter of the plugin InterPodAffinity.
func (tr *terrain) checkBonds(l *lay, i int) *refusal {
	for k := range tr.must {
		d := l.must[k].topo.of[i]
		if d < 0 || !tr.first && tr.must[k][d] == 0 {
			return noCompany
		}
	}
	for k := range tr.mustNot {
		if d := l.mustNot[k].topo.of[i]; d >= 0 && tr.mustNot[k] != nil && tr.mustNot[k][d] > 0 {
			return crowded
		}
	}
	for k := range tr.repel {
		if d := l.repel[k].topo.of[i]; d >= 0 && tr.repel[k] != nil && tr.repel[k][d] > 0 {
			return unwelcome
		}
	}
	return nil
}

// rankBonds adds the score of the plugin InterPodAffinity to the total of every feasible slot.
func (st *state) rankBonds(l *lay, ok []int32, total []int64) {
	raw := st.scratch.ints(len(ok))
	any := false
	add := func(topo *topology, per []int32, n, weight int64) {
		if n == 0 {
			return
		}
		any = true
		sum := st.scratch.sums(len(topo.ids))
		for i, d := range topo.of {
			if d >= 0 {
				sum[d] += per[i]
			}
		}
		for j, i := range ok {
			if d := topo.of[i]; d >= 0 {
				raw[j] += weight * int64(sum[d])
			}
		}
	}
	for _, b := range l.prefer {
		add(b.topo, b.tally.per, b.tally.total, b.weight)
	}
	for _, t := range l.lure {
		weight := t.weight
		if t.hard {
			weight = l.hardWeight
		}
		add(t.topo, t.per, t.total, weight)
	}
	if !any {
		return
	}
	low, high := slices.Min(raw), slices.Max(raw)
	if low == high {
		return
	}
	for j := range ok {
		total[j] += l.bondWeight * int64(maxScore*(float64(raw[j]-low)/float64(high-low)))
	}
}
