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
	of  []int32 // by slot: the number of its domain; -1: the node has no such label
}

// topologyOf returns the division by a label, made when it is the first asked for.
func (st *state) topologyOf(key string) *topology {
	d := st.topologies[key]
	if d != nil {
		return d
	}
	if len(st.topologies) >= maxTopologies {
		st.dropTopologies()
	}
	d = &topology{key: key}
	d.number(st)
	st.topologies[key] = d
	return d
}

// maxTopologies is how many there are before the unused are dropped.
const maxTopologies = 64

func (st *state) dropTopologies() {
	used := map[*topology]bool{}
	for _, tm := range st.terms {
		used[tm.topo] = true
	}
	for c := range st.prepared {
		for _, list := range [][]constraint{c.land.hard, c.land.soft} {
			for i := range list {
				used[list[i].topo] = true
			}
		}
		for _, list := range [][]bond{c.land.must, c.land.mustNot, c.land.prefer} {
			for i := range list {
				used[list[i].topo] = true
			}
		}
	}
	for key, d := range st.topologies {
		if !used[d] {
			delete(st.topologies, key)
		}
	}
}

// number gives the domains numbers, anew when too many are of nodes that are gone.
func (d *topology) number(st *state) {
	d.ids, d.of = map[string]int32{}, make([]int32, len(st.slots))
	for i, s := range st.slots {
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

func (m *matcher) matches(st *state, ns string, set labels.Set) bool {
	if !slices.Contains(m.namespaces, ns) && (m.nsSel == nil || !m.nsSel.Matches(st.namespaces[ns])) {
		return false
	}
	if !m.selector.Matches(set) {
		return false
	}
	for i := range m.also {
		if !m.also[i].matches(st, ns, set) {
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

// A tally counts, by slot, the pods that a matcher picks. Classes share tallies.
type tally struct {
	matcher
	key   string
	alive bool // pods that are being deleted don't count
	per   []int32
	total int64
	refs  int
	dead  bool
}

// tallyOf returns the tally of a matcher and counts what is there already.
func (st *state) tallyOf(m matcher, alive bool) *tally {
	k := fmt.Sprint(alive, " ", m.String())
	if ta := st.tallyByKey[k]; ta != nil {
		ta.refs++
		return ta
	}
	ta := &tally{matcher: m, key: k, alive: alive, refs: 1}
	st.tallyByKey[k] = ta
	st.tallies = append(st.tallies, ta)
	st.recount(ta)
	return ta
}

func (st *state) recount(ta *tally) {
	ta.per, ta.total = make([]int32, len(st.slots)), 0
	for _, s := range st.slots {
		for _, t := range s.tasks {
			if slices.Contains(t.class.counted(), ta) && (!ta.alive || t.counted) {
				ta.per[t.slot]++
				ta.total++
			}
		}
	}
}

func (st *state) dropTally(ta *tally) {
	if ta.refs--; ta.refs > 0 {
		return
	}
	ta.dead = true
	delete(st.tallyByKey, ta.key)
	st.forgetTallies()
	st.tallies = slices.DeleteFunc(st.tallies, func(x *tally) bool { return x == ta })
}

// forgetTallies makes every class find its tallies again.
func (st *state) forgetTallies() {
	for _, c := range st.classes {
		c.hits, c.seen = nil, 0
	}
}

// counted lists the tallies that count the class's pods.
func (c *class) counted() []*tally {
	for ; c.seen < len(c.st.tallies); c.seen++ {
		if ta := c.st.tallies[c.seen]; ta.matches(c.st, c.pod.Namespace, c.labels) {
			c.hits = append(c.hits, ta)
		}
	}
	return c.hits
}

// count notes n pods like t more on a slot.
func (st *state) count(t *task, i int, n int32) {
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

// widen makes room for one more slot.
func (st *state) widen() {
	for _, d := range st.topologies {
		d.of = append(d.of, -1)
	}
	for _, ta := range st.tallies {
		ta.per = append(ta.per, 0)
	}
	for _, tm := range st.terms {
		tm.per = append(tm.per, 0)
	}
}

// setNamespace takes in a namespace's labels; who selects namespaces counts again.
func (st *state) setNamespace(name string, set labels.Set, exists bool) (changed bool) {
	old, had := st.namespaces[name]
	if had == exists && labels.Equals(old, set) {
		return false
	}
	if exists {
		st.namespaces[name] = set
	} else {
		delete(st.namespaces, name)
	}
	var again []*tally
	for _, ta := range st.tallies {
		if ta.asksNamespaces() {
			again = append(again, ta)
		}
	}
	for _, tm := range st.terms {
		changed = changed || tm.nsSel != nil
	}
	if len(again) > 0 {
		st.forgetTallies()
		for _, ta := range again {
			st.recount(ta)
		}
	}
	if changed || len(again) > 0 {
		for c := range st.prepared { // whether pods satisfy their own terms may have changed
			if len(c.land.must) > 0 {
				c.strip()
			}
		}
		st.termEpoch++
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
