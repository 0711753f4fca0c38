package scheduler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	noAffinity           = &refusal{plugin: interPodAffinity, reasons: []string{"node(s) didn't match pod affinity rules"}, unresolvable: true}
	antiAffinity         = &refusal{plugin: interPodAffinity, reasons: []string{"node(s) didn't match pod anti-affinity rules"}}
	existingAntiAffinity = &refusal{plugin: interPodAffinity, reasons: []string{"node(s) didn't satisfy existing pods anti-affinity rules"}}
)

// An existingTerm is an affinity term of pods that are there, which binds or attracts those that come. Pods share terms.
type existingTerm struct {
	matcher
	key    string
	topo   *topology
	repels bool  // required anti-affinity; otherwise it ranks
	hard   bool  // required affinity: what it is worth is up to the caller
	weight int64 // below zero: keeps away
	per    []int32
	total  int64
	refs   int
}

// parsedTerms are a pod's terms, parsed.
type parsedTerms struct {
	required, antiRequired, preferred []parsedTerm
}

type parsedTerm struct {
	matcher
	topoKey string
	weight  int64
}

func parseTerms(p *corev1.Pod) (out parsedTerms) {
	a := p.Spec.Affinity
	if a == nil {
		return out
	}
	if x := a.PodAffinity; x != nil {
		for i := range x.RequiredDuringSchedulingIgnoredDuringExecution {
			out.required = append(out.required, parseTerm(p, &x.RequiredDuringSchedulingIgnoredDuringExecution[i], 0))
		}
		for i := range x.PreferredDuringSchedulingIgnoredDuringExecution {
			w := &x.PreferredDuringSchedulingIgnoredDuringExecution[i]
			out.preferred = append(out.preferred, parseTerm(p, &w.PodAffinityTerm, int64(w.Weight)))
		}
	}
	if x := a.PodAntiAffinity; x != nil {
		for i := range x.RequiredDuringSchedulingIgnoredDuringExecution {
			out.antiRequired = append(out.antiRequired, parseTerm(p, &x.RequiredDuringSchedulingIgnoredDuringExecution[i], 0))
		}
		for i := range x.PreferredDuringSchedulingIgnoredDuringExecution {
			w := &x.PreferredDuringSchedulingIgnoredDuringExecution[i]
			out.preferred = append(out.preferred, parseTerm(p, &w.PodAffinityTerm, -int64(w.Weight)))
		}
	}
	return out
}

func parseTerm(p *corev1.Pod, t *corev1.PodAffinityTerm, weight int64) parsedTerm {
	m := matcher{namespaces: slices.Sorted(slices.Values(t.Namespaces)),
		selector: selectorOf(t.LabelSelector, p, t.MatchLabelKeys, t.MismatchLabelKeys)}
	if t.NamespaceSelector != nil {
		m.nsSel, _ = metav1.LabelSelectorAsSelector(t.NamespaceSelector) // nil when it can't be parsed: selects none
	} else if len(m.namespaces) == 0 {
		m.namespaces = []string{p.Namespace}
	}
	return parsedTerm{m, t.TopologyKey, weight}
}

// termsOf interns the terms by which pods like this one bind others.
func (x *topologyIndex) termsOf(p *corev1.Pod) (list []*existingTerm) {
	parsed := parseTerms(p)
	for _, t := range parsed.antiRequired {
		list = append(list, x.termOf(t, true, false))
	}
	for _, t := range parsed.required {
		list = append(list, x.termOf(t, false, true))
	}
	for _, t := range parsed.preferred {
		list = append(list, x.termOf(t, false, false))
	}
	return list
}

func (x *topologyIndex) termOf(t parsedTerm, repels, hard bool) *existingTerm {
	k := fmt.Sprint(repels, " ", hard, " ", t.weight, " ", t.topoKey, " ", t.matcher.String())
	tm := x.termByKey[k]
	if tm == nil {
		tm = &existingTerm{matcher: t.matcher, key: k, topo: x.of(t.topoKey), repels: repels, hard: hard, weight: t.weight,
			per: make([]int32, len(x.st.nodes))}
		x.termByKey[k] = tm
		x.terms = append(x.terms, tm)
		x.termEpoch++
	}
	tm.refs++
	return tm
}

func (x *topologyIndex) dropTerm(tm *existingTerm) {
	if tm.refs--; tm.refs > 0 {
		return
	}
	delete(x.termByKey, tm.key)
	x.terms = slices.DeleteFunc(x.terms, func(x *existingTerm) bool { return x == tm })
	x.termEpoch++
}

// An affinityTerm is one of the class's own terms, ready to be counted.
type affinityTerm struct {
	topo   *topology
	tally  *podCounter
	weight int64
}

// readAffinity turns the class's terms into what is counted. Required affinity counts pods that match all its terms.
func readAffinity(c *podClass) {
	st, l := c.st, c.topology
	parsed := parseTerms(c.pod)
	if len(parsed.required) > 0 {
		all := parsed.required[0].matcher
		for _, t := range parsed.required[1:] {
			all.also = append(all.also, t.matcher)
		}
		l.matchesSelf = all.matches(st.topo, c.namespace, c.labels)
		together := st.topo.counterOf(all, false)
		l.counters = append(l.counters, together)
		for _, t := range parsed.required {
			l.required = append(l.required, affinityTerm{topo: st.topo.of(t.topoKey), tally: together})
		}
	}
	for _, t := range parsed.antiRequired {
		l.antiRequired = append(l.antiRequired, l.affinityTerm(st, t))
	}
	for _, t := range parsed.preferred {
		l.preferred = append(l.preferred, l.affinityTerm(st, t))
	}
}

func (l *topologyTerms) affinityTerm(st *state, t parsedTerm) affinityTerm {
	ta := st.topo.counterOf(t.matcher, false)
	l.counters = append(l.counters, ta)
	return affinityTerm{st.topo.of(t.topoKey), ta, t.weight}
}

// findExisting finds the terms of pods that are there which mean the class.
func findExisting(c *podClass) {
	st, l := c.st, c.topology
	if l.termEpoch == st.topo.termEpoch && l.termsKnown {
		return
	}
	hard, soft := c.profile.hardAffinity(), c.profile == nil || !c.profile.OwnPreferences
	l.hardWeight, l.termsKnown, l.termEpoch, l.existingAnti, l.existingPreferred = hard, true, st.topo.termEpoch, l.existingAnti[:0],
		l.existingPreferred[:0]
	for _, tm := range st.topo.terms {
		switch {
		case !tm.matches(st.topo, c.namespace, c.labels):
		case tm.repels:
			l.existingAnti = append(l.existingAnti, tm)
		case tm.hard && hard == 0, !tm.hard && !soft:
		default:
			l.existingPreferred = append(l.existingPreferred, tm)
		}
	}
}

// checkPodAffinity is the filter of the plugin InterPodAffinity.
func checkPodAffinity(tr *topologyCounts, l *topologyTerms, i int) *refusal {
	for k := range tr.required {
		d := l.required[k].topo.of[i]
		if d < 0 || !tr.noneExists && tr.required[k][d] == 0 {
			return noAffinity
		}
	}
	for k := range tr.antiRequired {
		if d := l.antiRequired[k].topo.of[i]; d >= 0 && tr.antiRequired[k] != nil && tr.antiRequired[k][d] > 0 {
			return antiAffinity
		}
	}
	for k := range tr.existingAnti {
		if d := l.existingAnti[k].topo.of[i]; d >= 0 && tr.existingAnti[k] != nil && tr.existingAnti[k][d] > 0 {
			return existingAntiAffinity
		}
	}
	return nil
}

// scorePodAffinity adds the score of the plugin InterPodAffinity to the total of every feasible node.
func (cy *cycle) scorePodAffinity(weight int64) {
	l, ok, total := cy.class.topology, cy.feasible, cy.total
	if len(l.preferred)+len(l.existingPreferred) == 0 {
		return
	}
	raw := cy.mem().ints(len(ok))
	any := false
	add := func(topo *topology, per []int32, n, weight int64) {
		if n == 0 {
			return
		}
		any = true
		sum := cy.mem().byDomain(topo, per, n)
		for j, i := range ok {
			if d := topo.of[i]; d >= 0 {
				raw[j] += weight * int64(sum[d])
			}
		}
	}
	for _, b := range l.preferred {
		add(b.topo, b.tally.per, b.tally.total, b.weight)
	}
	for _, t := range l.existingPreferred {
		worth := t.weight
		if t.hard {
			worth = l.hardWeight
		}
		add(t.topo, t.per, t.total, worth)
	}
	if !any {
		return
	}
	low, high := slices.Min(raw), slices.Max(raw)
	if low == high {
		return
	}
	for j := range ok {
		total[j] += weight * int64(maxScore*(float64(raw[j]-low)/float64(high-low)))
	}
}
