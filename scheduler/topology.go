package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// A topology divides the nodes by the value of one label.
type topology struct {
	key string
	ids map[string]int32
	of  []int32 // by node: the number of its domain; -1: the node has no such label
}

// topologyIndex divides the nodes by labels and counts the pods on each by matcher and by term.
type topologyIndex struct {
	st           *state
	byKey        map[string]*topology // by label
	counters     []*podCounter
	counterByKey map[string]*podCounter
	terms        []*existingTerm
	termByKey    map[string]*existingTerm
	termEpoch    int64
	namespaces   map[string]labels.Set
}

func newTopologyIndex(st *state) *topologyIndex {
	return &topologyIndex{st: st, byKey: map[string]*topology{}, counterByKey: map[string]*podCounter{}, termByKey: map[string]*existingTerm{},
		namespaces: map[string]labels.Set{}}
}

// of returns the division by a label, made when it is the first asked for.
func (x *topologyIndex) of(key string) *topology {
	d := x.byKey[key]
	if d != nil {
		return d
	}
	if len(x.byKey) >= maxTopologies {
		x.dropUnused()
	}
	d = &topology{key: key}
	d.number(x.st)
	x.byKey[key] = d
	return d
}

// maxTopologies bounds the topologies before the unused are dropped.
const maxTopologies = 64

func (x *topologyIndex) dropUnused() {
	used := map[*topology]bool{}
	for _, tm := range x.terms {
		used[tm.topo] = true
	}
	for c := range x.st.prepared {
		for _, list := range [][]constraint{c.topology.hard, c.topology.soft} {
			for i := range list {
				used[list[i].topo] = true
			}
		}
		for _, list := range [][]affinityTerm{c.topology.required, c.topology.antiRequired, c.topology.preferred} {
			for i := range list {
				used[list[i].topo] = true
			}
		}
	}
	for key, d := range x.byKey {
		if !used[d] {
			delete(x.byKey, key)
		}
	}
}

// number gives the domains numbers, anew when too many are of nodes that are gone.
func (d *topology) number(st *state) {
	d.ids, d.of = map[string]int32{}, make([]int32, len(st.nodes))
	for i, s := range st.nodes {
		d.of[i] = -1
		if s.node != nil {
			d.set(i, s.node.Labels, true)
		}
	}
}

func (d *topology) set(i int, has map[string]string, exists bool) {
	v, ok := has[d.key]
	if !ok || !exists {
		d.of[i] = -1
		return
	}
	id, known := d.ids[v]
	if !known {
		id = int32(len(d.ids))
		d.ids[v] = id
	}
	d.of[i] = id
}

// A matcher picks pods by namespace and labels.
type matcher struct {
	namespaces []string
	nsSel      labels.Selector // nil: none
	selector   labels.Selector
	also       []matcher // these have to match too
}

func (m *matcher) matches(x *topologyIndex, ns string, set labels.Set) bool {
	if !slices.Contains(m.namespaces, ns) && (m.nsSel == nil || !m.nsSel.Matches(x.namespaces[ns])) {
		return false
	}
	if !m.selector.Matches(set) {
		return false
	}
	for i := range m.also {
		if !m.also[i].matches(x, ns, set) {
			return false
		}
	}
	return true
}

// asksNamespaces tells whether labels of namespaces matter to the matcher.
func (m *matcher) asksNamespaces() bool {
	return m.nsSel != nil || slices.ContainsFunc(m.also, func(x matcher) bool { return x.asksNamespaces() })
}

func (m *matcher) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q", m.namespaces)
	if m.nsSel != nil {
		fmt.Fprintf(&b, " ns(%s)", m.nsSel)
	}
	if r, ok := m.selector.Requirements(); !ok || len(r) == 0 && !m.selector.Empty() {
		b.WriteString(" nothing")
	} else {
		fmt.Fprintf(&b, " (%s)", m.selector)
	}
	for i := range m.also {
		b.WriteString(" and " + m.also[i].String())
	}
	return b.String()
}

// A counter counts, by node, the pods that a matcher picks. Classes share counters.
type podCounter struct {
	matcher
	key   string
	alive bool // pods that are being deleted don't count
	per   []int32
	total int64
	refs  int
	dead  bool
}

// counterOf returns the counter of a matcher and counts what is there already.
func (x *topologyIndex) counterOf(m matcher, alive bool) *podCounter {
	k := fmt.Sprint(alive, " ", m.String())
	if ta := x.counterByKey[k]; ta != nil {
		ta.refs++
		return ta
	}
	ta := &podCounter{matcher: m, key: k, alive: alive, refs: 1}
	x.counterByKey[k] = ta
	x.counters = append(x.counters, ta)
	x.recount(ta)
	return ta
}

func (x *topologyIndex) recount(ta *podCounter) {
	ta.per, ta.total = make([]int32, len(x.st.nodes)), 0
	for _, s := range x.st.nodes {
		for _, t := range s.pods {
			if slices.Contains(t.class.counted(), ta) && (!ta.alive || t.counted) {
				ta.per[t.node]++
				ta.total++
			}
		}
	}
}

func (x *topologyIndex) dropCounter(ta *podCounter) {
	if ta.refs--; ta.refs > 0 {
		return
	}
	ta.dead = true
	delete(x.counterByKey, ta.key)
	x.forgetCounters()
	x.counters = slices.DeleteFunc(x.counters, func(x *podCounter) bool { return x == ta })
}

// forgetCounters makes every class look for its counters again.
func (x *topologyIndex) forgetCounters() {
	for _, c := range x.st.classes {
		c.counters, c.countersSeen = nil, 0
	}
}

// counted lists the those that count the class's pods.
func (c *podClass) counted() []*podCounter {
	for ; c.countersSeen < len(c.st.topo.counters); c.countersSeen++ {
		if ta := c.st.topo.counters[c.countersSeen]; ta.matches(c.st.topo, c.namespace, c.labels) {
			c.counters = append(c.counters, ta)
		}
	}
	return c.counters
}

// count notes n pods like t more on a node.
func (x *topologyIndex) count(t *task, i int, n int32) {
	for _, ta := range t.class.counted() {
		if !ta.alive || t.counted {
			ta.per[i] += n
			ta.total += int64(n)
		}
	}
	for _, tm := range t.class.terms {
		tm.per[i] += n
		tm.total += int64(n)
	}
}

// grow makes room for one more index.
func (x *topologyIndex) grow() {
	for _, d := range x.byKey {
		d.of = append(d.of, -1)
	}
	for _, ta := range x.counters {
		ta.per = append(ta.per, 0)
	}
	for _, tm := range x.terms {
		tm.per = append(tm.per, 0)
	}
}

// setNamespace takes in a namespace's labels; who selects namespaces counts again.
func (x *topologyIndex) setNamespace(name string, set labels.Set, exists bool) (changed bool) {
	old, had := x.namespaces[name]
	if had == exists && labels.Equals(old, set) {
		return false
	}
	if exists {
		x.namespaces[name] = set
	} else {
		delete(x.namespaces, name)
	}
	var again []*podCounter
	for _, ta := range x.counters {
		if ta.asksNamespaces() {
			again = append(again, ta)
		}
	}
	for _, tm := range x.terms {
		changed = changed || tm.nsSel != nil
	}
	if len(again) > 0 {
		x.forgetCounters()
		for _, ta := range again {
			x.recount(ta)
		}
	}
	if changed || len(again) > 0 {
		for c := range x.st.prepared { // whether pods satisfy their own terms may have changed
			if len(c.topology.required) > 0 {
				c.unprepare()
			}
		}
		x.termEpoch++
		return true
	}
	return false
}

// selectorOf parses a label selector and adds what matchLabelKeys and mismatchLabelKeys stand for. A selector
// that can't be parsed, which validation refuses, matches nothing.
func selectorOf(s *metav1.LabelSelector, pod *corev1.Pod, match, mismatch []string) labels.Selector {
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	if s == nil {
		return sel
	}
	add := func(keys []string, op selection.Operator) {
		for _, k := range keys {
			if v, ok := pod.Labels[k]; ok {
				if r, err := labels.NewRequirement(k, op, []string{v}); err == nil {
					sel = sel.Add(*r)
				}
			}
		}
	}
	add(match, selection.In)
	add(mismatch, selection.NotIn)
	return sel
}
