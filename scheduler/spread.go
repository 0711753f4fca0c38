package scheduler

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

var (
	skewed  = &refusal{plugin: podTopologySpread, reasons: []string{"node(s) didn't match pod topology spread constraints"}}
	noLabel = &refusal{plugin: podTopologySpread, unresolvable: true,
		reasons: []string{"node(s) didn't match pod topology spread constraints (missing required label)"}}
)

// A constraint is one topologySpreadConstraint of a class, ready to be counted.
type constraint struct {
	topo       *topology
	tally      *podCounter
	maxSkew    int32
	minDomains int
	self       int32 // 1: the class's own pods count
	marks      uint8 // which a node must have to count
	host       bool
}

// maxConstraints bounds the constraints of one pod, each way, that are looked at.
const maxConstraints = 16

// readSpread reads the class's constraints; without any, the cluster's own apply, which only rank.
func readSpread(c *podClass) {
	st, l := c.st, c.topology
	for i := range c.pod.Spec.TopologySpreadConstraints {
		x := &c.pod.Spec.TopologySpreadConstraints[i]
		k := l.constraint(st, c, x, selectorOf(x.LabelSelector, c.pod, x.MatchLabelKeys, nil))
		if x.WhenUnsatisfiable == corev1.DoNotSchedule && len(l.hard) < maxConstraints {
			l.hard = append(l.hard, k)
		} else if x.WhenUnsatisfiable == corev1.ScheduleAnyway && len(l.soft) < maxConstraints {
			l.soft = append(l.soft, k)
		}
	}
	if len(c.pod.Spec.TopologySpreadConstraints) > 0 {
		l.strict = true
		return
	}
	sel := st.defaultSelector(c.pod)
	if sel.Empty() {
		return
	}
	for _, x := range c.profile.spread() {
		k := l.constraint(st, c, &x, sel)
		if x.WhenUnsatisfiable == corev1.DoNotSchedule {
			l.hard = append(l.hard, k)
		} else {
			l.soft = append(l.soft, k)
		}
	}
}

func (l *topologyTerms) constraint(st *state, c *podClass, x *corev1.TopologySpreadConstraint, sel labels.Selector) constraint {
	k := constraint{topo: st.topo.of(x.TopologyKey), maxSkew: x.MaxSkew, minDomains: 1, host: x.TopologyKey == corev1.LabelHostname}
	if x.NodeAffinityPolicy == nil || *x.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor {
		k.marks |= selectorOK
	}
	if x.NodeTaintsPolicy != nil && *x.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor {
		k.marks |= taintsOK
	}
	k.tally = st.topo.counterOf(matcher{namespaces: []string{c.pod.Namespace}, selector: sel}, true)
	l.counters = append(l.counters, k.tally)
	if x.MinDomains != nil {
		k.minDomains = int(*x.MinDomains)
	}
	if sel.Matches(c.labels) {
		k.self = 1
	}
	return k
}

// defaultSelector picks the pods that belong together with p: those of its services and of its controller.
func (st *state) defaultSelector(p *corev1.Pod) labels.Selector {
	set := labels.Set{}
	sel := labels.NewSelector()
	if st.read == nil {
		return sel
	}
	for o := range st.read.Each(kinds.Services, p.Namespace) {
		if s := o.(*corev1.Service).Spec.Selector; len(s) > 0 && labels.SelectorFromSet(s).Matches(labels.Set(p.Labels)) {
			set = labels.Merge(set, s)
		}
	}
	var more *metav1.LabelSelector
	if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
		switch ref.Kind {
		case "ReplicationController":
			if rc := resource.Get(st.read, kinds.ReplicationControllers, p.Namespace, ref.Name); rc != nil {
				set = labels.Merge(set, rc.Spec.Selector)
			}
		case "ReplicaSet":
			if rs := resource.Get(st.read, kinds.ReplicaSets, p.Namespace, ref.Name); rs != nil {
				more = rs.Spec.Selector
			}
		case "StatefulSet":
			if ss := resource.Get(st.read, kinds.StatefulSets, p.Namespace, ref.Name); ss != nil {
				more = ss.Spec.Selector
			}
		}
	}
	if len(set) > 0 {
		sel = labels.SelectorFromSet(set)
	}
	if more != nil {
		if s, err := metav1.LabelSelectorAsSelector(more); err == nil {
			reqs, _ := s.Requirements()
			sel = sel.Add(reqs...)
		}
	}
	return sel
}

// refresh brings counts up to date: as bits, which constraints a node counts for, hard ones from bit 0, soft ones
// from bit 16.
func (l *topologyTerms) refresh(st *state, o *nodeVerdicts) {
	if len(l.hard)+len(l.soft) == 0 {
		return
	}
	changed, known := st.journal.since(l.at, len(st.nodes))
	known = known && l.counts != nil
	for len(l.counts) < len(st.nodes) {
		l.counts = append(l.counts, 0)
	}
	if !known {
		for i := range st.nodes {
			l.counts[i] = l.countsFor(i, o.marks[i])
		}
	} else {
		for _, i := range changed {
			l.counts[i] = l.countsFor(int(i), o.marks[i])
		}
	}
	l.at = st.now()
}

func (l *topologyTerms) countsFor(i int, marks uint8) (bits uint32) {
	set := func(list []constraint, shift int, all bool) {
		for k := range list {
			if all && list[k].topo.of[i] < 0 {
				return
			}
		}
		for k := range list {
			if marks&list[k].marks == list[k].marks {
				bits |= 1 << (shift + k)
			}
		}
	}
	set(l.hard, 0, true)
	set(l.soft, maxConstraints, l.strict)
	return bits
}

// spreadCounts counts pods over the domains of a hard constraint.
type spreadCounts struct {
	sum []int32 // by domain; counts one too many, so that 0 means: not a domain that counts
	min int32
}

// countSpread counts the pods under a hard constraint.
func (l *topologyTerms) countSpread(mem *scratch, k int) spreadCounts {
	x := &l.hard[k]
	sum := mem.sums(len(x.topo.ids))
	of, per, bit := x.topo.of, x.tally.per, uint32(1)<<k
	for i, bits := range l.counts {
		if bits&bit == 0 || of[i] < 0 {
			continue
		}
		d := of[i]
		if sum[d] == 0 {
			sum[d] = 1
		}
		sum[d] += per[i]
	}
	lv := spreadCounts{sum: sum}
	lv.lowest(x.minDomains)
	return lv
}

// lowest finds the domain with the fewest pods; too few domains count as one without any.
func (lv *spreadCounts) lowest(domains int) {
	lv.min = math.MaxInt32
	for _, n := range lv.sum {
		if n > 0 {
			lv.min = min(lv.min, n-1)
			domains--
		}
	}
	if domains > 0 {
		lv.min = 0
	}
}

// checkSpread is the filter of the plugin PodTopologySpread.
func checkSpread(tr *topologyCounts, l *topologyTerms, i int) *refusal {
	for k := range l.hard {
		x, lv := &l.hard[k], &tr.spread[k]
		d := x.topo.of[i]
		if d < 0 {
			return noLabel
		}
		if max(lv.sum[d]-1, 0)+x.self-lv.min > x.maxSkew {
			return skewed
		}
	}
	return nil
}

// scoreSpread adds the score of the plugin PodTopologySpread: few pods alike in the node's domains are good, and
// the fewer domains there are, the less each pod weighs.
func (cy *cycle) scoreSpread(weight int64) {
	l, ok, total := cy.class.topology, cy.feasible, cy.total
	if len(l.soft) == 0 {
		return
	}
	ignored := cy.mem().flags(len(ok))
	left := len(ok)
	if l.strict {
		for j, i := range ok {
			for k := range l.soft {
				if l.soft[k].topo.of[i] < 0 {
					ignored[j] = true
				}
			}
			if ignored[j] {
				left--
			}
		}
	}
	raw := cy.mem().floats(len(ok))
	for k := range l.soft {
		cy.scoreConstraint(&l.soft[k], uint32(1)<<(maxConstraints+k), ignored, left, raw)
	}
	low, high := int64(math.MaxInt64), int64(0)
	for j := range ok {
		if !ignored[j] {
			r := int64(math.Round(raw[j]))
			low, high = min(low, r), max(high, r)
		}
	}
	for j := range ok {
		switch {
		case ignored[j]:
		case high == 0:
			total[j] += weight * maxScore
		default:
			total[j] += weight * (maxScore * (high + low - int64(math.Round(raw[j]))) / high)
		}
	}
}

func (cy *cycle) scoreConstraint(x *constraint, bit uint32, ignored []bool, left int, raw []float64) {
	l, ok := cy.class.topology, cy.feasible
	of, per := x.topo.of, x.tally.per
	if x.host {
		weight := math.Log(float64(left + 2))
		for j, i := range ok {
			if of[i] >= 0 && !ignored[j] {
				raw[j] += float64(per[i])*weight + float64(x.maxSkew-1)
			}
		}
		return
	}
	sum := cy.mem().sums(len(x.topo.ids))
	size, bare := 0, false
	for j, i := range ok {
		switch d := of[i]; {
		case ignored[j]:
		case d < 0:
			bare = true // nodes without the label are one more domain
		case sum[d] == 0:
			sum[d] = 1
			size++
		}
	}
	if bare {
		size++
	}
	for i, bits := range l.counts {
		if d := of[i]; bits&bit != 0 && d >= 0 && sum[d] > 0 {
			sum[d] += per[i]
		}
	}
	weight := math.Log(float64(size + 2))
	for j, i := range ok {
		if d := of[i]; d >= 0 && !ignored[j] {
			raw[j] += float64(sum[d]-1)*weight + float64(x.maxSkew-1)
		}
	}
}

// countsPodsOf tells whether pods like c's lie under a constraint of the class.
func (l *topologyTerms) countsPodsOf(c *podClass) bool {
	return slices.ContainsFunc(c.counted(), func(ta *podCounter) bool { return slices.Contains(l.counters, ta) })
}
