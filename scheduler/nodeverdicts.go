package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// nodeVerdicts caches, per node, the filter result and the node-local scores for pods that differ at most in namespace, labels,
// owner, volumes and inter-pod affinity: those of a StatefulSet, too. Only nodes that changed are
// looked at again.
type nodeVerdicts struct {
	st       *state
	pod      *corev1.Pod // reduced, with the profile's affinity
	need     *need
	priority int32
	refs     int // prepared classes that share it
	lastUsed int64

	named     map[string]bool
	required  nodeaffinity.RequiredNodeAffinity
	preferred *nodeaffinity.PreferredSchedulingTerms
	images    []string
	filters   []filter
	scores    []plugin
	short     map[uint64]*refusal
	ignored   []int     // resources that the profile leaves to others
	strategy  *Strategy // of NodeResourcesFit
	fitBy     []ranked
	evenBy    []ranked // of NodeResourcesBalancedAllocation
	features  ndf.FeatureSet

	filled  bool
	at      int64      // number of the next change to look at
	verdict []*refusal // by node; nil: the node can take a pod
	base    []int64    // by node: the scores that need no comparison
	raw     [][]int64  // by score that does, by node
	nonZero []int      // by score: how many nodes are above zero
	marks   []uint8    // by node: selectorOK and taintsOK

	imageEpoch, imageSum int64
	noDevices            bool // the profile looks for no devices
	classEpoch           int64
}

// Marks of a node, for spread constraints.
const (
	selectorOK uint8 = 1 << iota // the pod's own selectors take the node
	taintsOK                     // it tolerates the node's taints
)

// noNode is the verdict on an index without a node; it never shows.
var noNode = &refusal{unresolvable: true}

// verdictsOf returns the verdicts for the class's pods.
func (st *state) verdictsOf(c *podClass) *nodeVerdicts {
	d := st.localDemand(c.demand)
	o := st.verdicts[d.key]
	if o == nil {
		st.dropVerdicts()
		d := d.clone()
		p := c.profile.affinity(d.pod)
		o = &nodeVerdicts{st: st, pod: p, need: c.need, priority: c.priority, named: namedNodes(p), preferred: preferences(p),
			images:   imagesOf(p),
			required: nodeaffinity.GetRequiredNodeAffinity(p)}
		o.features, o.noDevices = d.features, !c.profile.on(dynamicResources)
		c.profile.tuneScores(o)
		o.usePlugins(c.profile.plugins())
		st.verdicts[d.key] = o
	}
	o.refs++
	return o
}

// filter is a plugin's check of one node by itself.
type filter func(o *nodeVerdicts, s *nodeInfo) *refusal

// usePlugins picks the filters and scores that mean something for the pods.
func (o *nodeVerdicts) usePlugins(list []plugin) {
	for _, p := range list {
		if p.preFilter != nil {
			o.filters = append([]filter{p.preFilter}, o.filters...)
		}
		if p.filter != nil && (p.skipFilter == nil || !p.skipFilter(o)) {
			o.filters = append(o.filters, p.filter)
		}
		if p.score != nil && p.weight > 0 && (p.skipScore == nil || !p.skipScore(o)) {
			o.scores = append(o.scores, p)
		}
	}
}

// dropVerdicts forgets the one that was not used for longest when there are too many.
func (st *state) dropVerdicts() {
	if len(st.verdicts) < st.maxPrepared() {
		return
	}
	oldest := ""
	for k, o := range st.verdicts {
		if o.refs == 0 && (oldest == "" || o.lastUsed < st.verdicts[oldest].lastUsed) {
			oldest = k
		}
	}
	delete(st.verdicts, oldest)
}

// check runs the checks of one node by itself.
func (o *nodeVerdicts) check(s *nodeInfo) *refusal {
	for i := range o.filters {
		if r := o.filters[i](o, s); r != nil {
			return r
		}
	}
	return nil
}

// refresh brings the verdicts up to date.
func (o *nodeVerdicts) refresh() {
	st := o.st
	o.lastUsed = st.clock
	changed, known := st.journal.since(o.at, len(st.nodes))
	stale := !o.filled || !known
	if o.imageEpoch != st.images.epoch {
		o.imageEpoch = st.images.epoch
		if sum := st.images.sum(o.images); o.imageSum != sum {
			o.imageSum, stale = sum, true
		}
	}
	if o.classEpoch != st.inventory.classEpoch {
		o.classEpoch, stale = st.inventory.classEpoch, true
	}
	o.size(len(st.nodes))
	if stale {
		for i := range st.nodes {
			o.look(i)
		}
		o.filled = true
	} else {
		for _, i := range changed {
			o.look(int(i))
		}
	}
	o.at = st.now()
}

func (o *nodeVerdicts) size(slots int) {
	for len(o.raw) < len(o.scores) {
		o.raw = append(o.raw, nil)
		o.nonZero = append(o.nonZero, 0)
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

// look filters and scores one node again.
func (o *nodeVerdicts) look(i int) {
	s := o.st.nodes[i]
	o.verdict[i], o.marks[i], o.base[i] = noNode, 0, 0
	if s.node == nil {
		for k := range o.scores {
			o.setRaw(k, i, 0)
		}
		return
	}
	if ok, _ := o.required.Match(s.node); ok {
		o.marks[i] |= selectorOK
	}
	if toleratesAll(o.pod.Spec.Tolerations, s.node.Spec.Taints) {
		o.marks[i] |= taintsOK
	}
	o.verdict[i] = o.check(s)
	if o.verdict[i] == nil && len(s.nominated) > 0 {
		o.st.withNominated(i, o.priority, nil, func() { o.verdict[i] = o.check(s) })
	}
	for k := range o.scores {
		sc := &o.scores[k]
		v := int64(0)
		if o.verdict[i] == nil {
			v = sc.score(o, s)
		}
		if sc.norm == absolute {
			o.base[i] += sc.weight * v
		} else {
			o.setRaw(k, i, v)
		}
	}
}

func (o *nodeVerdicts) setRaw(k, i int, v int64) {
	if old := o.raw[k][i]; (old == 0) != (v == 0) {
		if v == 0 {
			o.nonZero[k]--
		} else {
			o.nonZero[k]++
		}
	}
	o.raw[k][i] = v
}
