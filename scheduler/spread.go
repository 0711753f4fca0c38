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
	noLabel = &refusal{plugin: podTopologySpread, hopeless: true,
		reasons: []string{"node(s) didn't match pod topology spread constraints (missing required label)"}}
)

// A constraint is one topologySpreadConstraint of a class, ready to be counted.
type constraint struct {
	topo       *topology
	tally      *tally
	maxSkew    int32
	minDomains int
	self       int32 // 1: the class's own pods count
	marks      uint8 // which a node must have to count
	host       bool
}

// maxConstraints bounds the constraints of one pod, each way, that are looked at.
const maxConstraints = 16

// spreads reads the class's constraints; without any, the cluster's own apply, which only rank.
func (l *lay) spreads(st *state, c *class) {
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
	sel := st.kinSelector(c.pod)
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

func (l *lay) constraint(st *state, c *class, x *corev1.TopologySpreadConstraint, sel labels.Selector) constraint {
	k := constraint{topo: st.topologyOf(x.TopologyKey), maxSkew: x.MaxSkew, minDomains: 1, host: x.TopologyKey == corev1.LabelHostname}
	if x.NodeAffinityPolicy == nil || *x.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor {
		k.marks |= chosen
	}
	if x.NodeTaintsPolicy != nil && *x.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor {
		k.marks |= clean
	}
	k.tally = st.tallyOf(matcher{namespaces: []string{c.pod.Namespace}, selector: sel}, true)
	l.tallies = append(l.tallies, k.tally)
	if x.MinDomains != nil {
		k.minDomains = int(*x.MinDomains)
	}
	if sel.Matches(c.labels) {
		k.self = 1
	}
	return k
}

// kinSelector picks the pods that belong together with p: those of its services and of its controller.
func (st *state) kinSelector(p *corev1.Pod) labels.Selector {
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
func (l *lay) refresh(st *state, o *outlook) {
	if len(l.hard)+len(l.soft) == 0 {
		return
	}
	stale := l.counts == nil || l.at < st.journalAt || int(st.now()-l.at) > len(st.slots)
	for len(l.counts) < len(st.slots) {
		l.counts = append(l.counts, 0)
	}
	if stale {
		for i := range st.slots {
			l.counts[i] = l.countsFor(i, o.marks[i])
		}
	} else {
		for _, i := range st.journal[l.at-st.journalAt:] {
			l.counts[i] = l.countsFor(int(i), o.marks[i])
		}
	}
	l.at = st.now()
}

func (l *lay) countsFor(i int, marks uint8) (bits uint32) {
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

// A level is how pods lie over the domains of a hard constraint.
type level struct {
	sum []int32 // by domain; counts one too many, so that 0 means: not a domain that counts
	min int32
}

func (st *state) levelOf(l *lay, k int) level {
	x := &l.hard[k]
	sum := st.scratch.sums(len(x.topo.ids))
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
	lv := level{sum: sum}
	lv.lowest(x.minDomains)
	return lv
}

// lowest finds the domain with the fewest pods; too few domains count as one without any.
func (lv *level) lowest(domains int) {
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
func (tr *terrain) checkSpread(l *lay, i int) *refusal {
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

// rankSpread adds the score of the plugin PodTopologySpread: few pods alike in the node's domains are good, and
// the fewer domains there are, the less each pod weighs.
func (st *state) rankSpread(l *lay, ok []int32, total []int64) {
	ignored := st.scratch.flags(len(ok))
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
	raw := st.scratch.floats(len(ok))
	for k := range l.soft {
		st.rankConstraint(l, &l.soft[k], uint32(1)<<(maxConstraints+k), ok, ignored, left, raw)
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
			total[j] += l.spreadWeight * maxScore
		default:
			total[j] += l.spreadWeight * (maxScore * (high + low - int64(math.Round(raw[j]))) / high)
		}
	}
}

func (st *state) rankConstraint(l *lay, x *constraint, bit uint32, ok []int32, ignored []bool, left int, raw []float64) {
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
	sum := st.scratch.sums(len(x.topo.ids))
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

// skews tells whether pods like c's lie under a constraint of the class.
func (l *lay) skews(c *class) bool {
	return slices.ContainsFunc(c.counted(), func(ta *tally) bool { return slices.Contains(l.tallies, ta) })
}
