package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// An outlook is what every node by itself means to pods that differ at most in namespace, labels, owner, volumes
// and what they think of other pods: those of a StatefulSet, too. It remembers; only slots that changed are
// looked at again.
type outlook struct {
	st       *state
	pod      *corev1.Pod // any of them
	need     *need
	priority int32
	refs     int // prepared classes that share it
	used     int64

	only      map[string]bool
	required  nodeaffinity.RequiredNodeAffinity
	preferred *nodeaffinity.PreferredSchedulingTerms
	images    []string
	filters   []filter
	scores    []score
	short     map[uint64]*refusal
	ignored   []int     // resources that the profile leaves to others
	strategy  *Strategy // of NodeResourcesFit
	fitBy     []ranked
	evenBy    []ranked // of NodeResourcesBalancedAllocation
	features  ndf.FeatureSet

	filled  bool
	at      int64      // number of the next change to look at
	verdict []*refusal // by slot; nil: the node can take a pod
	base    []int64    // by slot: the scores that need no comparison
	raw     [][]int64  // by score that does, by slot
	some    []int      // by score: how many slots are above zero
	marks   []uint8    // by slot: chosen and clean

	imageEpoch, imageSum int64
	deviceless           bool // the profile looks for no devices
	classEpoch           int64
}

// Marks of a slot, for spread constraints.
const (
	chosen uint8 = 1 << iota // the pod's own selectors take the node
	clean                    // it tolerates the node's taints
)

// noNode is the verdict on a slot without a node; it never shows.
var noNode = &refusal{hopeless: true}

// outlookKey is the part of a pod that outlooks depend on.
func (st *state) outlookKey(p *corev1.Pod) string {
	s := &p.Spec
	q := corev1.Pod{Spec: corev1.PodSpec{Hostname: st.featuresOf(p).String(), SchedulerName: s.SchedulerName, NodeSelector: s.NodeSelector, Tolerations: s.Tolerations, Overhead: s.Overhead, Priority: s.Priority,
		Resources: s.Resources, InitContainers: bare(s.InitContainers), Containers: bare(s.Containers)}}
	if a := affinityOf(p); a != nil {
		q.Spec.Affinity = &corev1.Affinity{NodeAffinity: a}
	}
	data, err := q.Marshal()
	if err != nil {
		return string(p.UID) // can't be; then it is like no other
	}
	return string(data)
}

// outlookOf returns the outlook of the class's pods.
func (st *state) outlookOf(c *class) *outlook {
	k := st.outlookKey(c.pod)
	o := st.outlooks[k]
	if o == nil {
		st.dropOutlooks()
		p := c.profile.affinity(c.pod)
		o = &outlook{st: st, pod: p, need: c.need, priority: c.priority, only: namedNodes(p), preferred: preferences(p), images: imagesOf(p),
			required: nodeaffinity.GetRequiredNodeAffinity(p)}
		o.features, o.deviceless = st.featuresOf(p), !c.profile.on(devicePlugin)
		c.profile.tuneScores(o)
		for _, f := range c.profile.filters() {
			if f.applies(o) {
				o.filters = append(o.filters, f)
			}
		}
		for _, s := range c.profile.scores() {
			if s.applies(o) {
				o.scores = append(o.scores, s)
			}
		}
		st.outlooks[k] = o
	}
	o.refs++
	return o
}

// dropOutlooks forgets the one that was not used for longest when there are too many.
func (st *state) dropOutlooks() {
	if len(st.outlooks) < st.memories() {
		return
	}
	oldest := ""
	for k, o := range st.outlooks {
		if o.refs == 0 && (oldest == "" || o.used < st.outlooks[oldest].used) {
			oldest = k
		}
	}
	delete(st.outlooks, oldest)
}

// check runs the checks of one node by itself.
func (o *outlook) check(s *slot) *refusal {
	for i := range o.filters {
		if r := o.filters[i].check(o, s); r != nil {
			return r
		}
	}
	return nil
}

// refresh brings the outlook up to date.
func (o *outlook) refresh() {
	st := o.st
	o.used = st.clock
	stale := !o.filled || o.at < st.journalAt || int(st.now()-o.at) > len(st.slots)
	if o.imageEpoch != st.imageEpoch {
		o.imageEpoch = st.imageEpoch
		if sum := st.imageSum(o.images); o.imageSum != sum {
			o.imageSum, stale = sum, true
		}
	}
	if o.classEpoch != st.stock.classEpoch {
		o.classEpoch, stale = st.stock.classEpoch, true
	}
	o.size(len(st.slots))
	if stale {
		for i := range st.slots {
			o.look(i)
		}
		o.filled = true
	} else {
		for _, i := range st.journal[o.at-st.journalAt:] {
			o.look(int(i))
		}
	}
	o.at = st.now()
}

func (o *outlook) size(slots int) {
	for len(o.raw) < len(o.scores) {
		o.raw = append(o.raw, nil)
		o.some = append(o.some, 0)
	}
	for more := slots - len(o.verdict); more > 0; more-- {
		o.verdict = append(o.verdict, noNode)
		o.base = append(o.base, 0)
		o.marks = append(o.marks, 0)
		for k := range o.raw {
			o.raw[k] = append(o.raw[k], 0)
		}
	}
}

// look looks at one slot again.
func (o *outlook) look(i int) {
	s := o.st.slots[i]
	o.verdict[i], o.marks[i], o.base[i] = noNode, 0, 0
	if s.node == nil {
		for k := range o.scores {
			o.setRaw(k, i, 0)
		}
		return
	}
	if ok, _ := o.required.Match(s.node); ok {
		o.marks[i] |= chosen
	}
	if toleratesAll(o.pod.Spec.Tolerations, s.node.Spec.Taints) {
		o.marks[i] |= clean
	}
	o.verdict[i] = o.check(s)
	if o.verdict[i] == nil && len(s.nominees) > 0 {
		o.st.with(i, o.priority, nil, func() { o.verdict[i] = o.check(s) })
	}
	for k := range o.scores {
		sc := &o.scores[k]
		v := int64(0)
		if o.verdict[i] == nil {
			v = sc.of(o, s)
		}
		if sc.norm == absolute {
			o.base[i] += sc.weight * v
		} else {
			o.setRaw(k, i, v)
		}
	}
}

func (o *outlook) setRaw(k, i int, v int64) {
	if old := o.raw[k][i]; (old == 0) != (v == 0) {
		if v == 0 {
			o.some[k]--
		} else {
			o.some[k]++
		}
	}
	o.raw[k][i] = v
}
