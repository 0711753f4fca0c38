package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A failure says why no node can take a pod.
type failure struct {
	at, termEpoch, volEpoch, devEpoch int64 // when it was found
	nodes                             int
	pre                               string     // refused without a look at nodes
	refused                           []*refusal // by slot
	plugins                           plugin
	why                               string // why preemption does not help; "": not known
	text                              string // the message, once it was asked for
	err                               error  // it could not be found out
}

// decide returns the slot that suits the task best, or the reason why none does.
func (st *state) decide(t *task) (int, *failure) {
	c := t.class
	if f := c.failure; f != nil && t.nominee < 0 && c.ready && len(c.extenders) == 0 && f.at == st.now() && f.termEpoch == st.termEpoch && f.volEpoch == st.volEpoch && f.devEpoch == st.stock.epoch {
		return -1, f
	}
	o := st.refresh(c)
	st.scratch.reset()
	if why := c.broken(); why != "" {
		return -1, st.fail(c, &failure{pre: why, plugins: volumeBinding | dynamicResources})
	}
	if t.nominee >= 0 {
		if i := t.nominee; st.fits(t, i) {
			if ok, err := st.extend(c, t.pod, []int32{int32(i)}, zeros(&st.scratch.refused, len(o.verdict))); err == nil && len(ok) > 0 {
				return i, nil
			}
		}
		st.scratch.reset()
	}
	best, err := st.best(c, t.pod, o)
	if err != nil {
		return -1, &failure{nodes: st.nodes, err: err}
	}
	if best >= 0 {
		return best, nil
	}
	f := &failure{refused: make([]*refusal, len(o.verdict))}
	for i, r := range o.verdict {
		if r == nil {
			r = st.scratch.refused[i]
		}
		f.refused[i] = r
		f.plugins |= r.plugin
	}
	return -1, st.fail(c, f)
}

// broken says why no node at all will do.
func (c *class) broken() string {
	if c.volumes != nil && c.volumes.broken != "" {
		return c.volumes.broken
	}
	if c.devices != nil {
		return c.devices.broken
	}
	return ""
}

func (st *state) fail(c *class, f *failure) *failure {
	f.nodes, f.at, f.termEpoch, f.volEpoch, f.devEpoch = st.nodes, st.now(), st.termEpoch, st.volEpoch, st.stock.epoch
	c.failure = f
	return f
}

// best picks the highest score among the slots that pass all filters; -1: none does. Ties go round.
//
// Unlike Kubernetes, every node is looked at, not a sample, and ties are not broken by chance.
func (st *state) best(c *class, pod *corev1.Pod, o *outlook) (int, error) {
	l := c.land
	ok := st.scratch.okay[:0]
	if l.rough() || c.volumes != nil || c.devices != nil || len(c.extenders) > 0 {
		tr := st.look(c)
		refused := zeros(&st.scratch.refused, len(o.verdict))
		for i, r := range o.verdict {
			if r != nil {
				continue
			}
			if r = tr.check(l, i); r == nil {
				r = c.claimed(st.slots[i])
			}
			if r == nil && len(st.slots[i].nominees) > 0 && l.rough() {
				r = st.checkAmong(tr, c, i)
			}
			if r != nil {
				refused[i] = r
				continue
			}
			ok = append(ok, int32(i))
		}
	} else if len(l.soft)+len(l.prefer)+len(l.lure) == 0 && !slices.ContainsFunc(o.some, func(n int) bool { return n > 0 }) {
		return st.plain(o), nil
	} else {
		for i, r := range o.verdict {
			if r == nil {
				ok = append(ok, int32(i))
			}
		}
	}
	st.scratch.okay = ok
	if len(c.extenders) > 0 {
		var err error
		if ok, err = st.extend(c, pod, ok, st.scratch.refused); err != nil {
			return -1, err
		}
	}
	switch len(ok) {
	case 0:
		return -1, nil
	case 1:
		return int(ok[0]), nil
	}
	return st.rank(c, pod, o, ok), nil
}

// plain is best for a class whose nodes need no comparison.
func (st *state) plain(o *outlook) int {
	best, top := -1, int64(-1)
	scan := func(from, to int) {
		base := o.base[from:to]
		for i, r := range o.verdict[from:to] {
			if r == nil && base[i] > top {
				best, top = from+i, base[i]
			}
		}
	}
	turn := min(st.turn, len(o.verdict))
	scan(turn, len(o.verdict))
	scan(0, turn)
	return best
}

// rank adds up all scores of the slots that can take the pod.
func (st *state) rank(c *class, pod *corev1.Pod, o *outlook, ok []int32) int {
	total := zeros(&st.scratch.total, len(ok))
	for j, i := range ok {
		total[j] = o.base[i]
	}
	for k, sc := range o.scores {
		if sc.norm != absolute && o.some[k] > 0 {
			proportion(o.raw[k], ok, total, sc.weight, sc.norm == less)
		}
	}
	if len(c.land.soft) > 0 {
		st.rankSpread(c.land, ok, total)
	}
	if len(c.land.prefer)+len(c.land.lure) > 0 {
		st.rankBonds(c.land, ok, total)
	}
	if c.volumes != nil && len(c.volumes.wait) > 0 {
		st.rankVolumes(c, ok, total)
	}
	if c.devices != nil && c.devices.choosy() {
		st.rankDevices(c, ok, total)
	}
	if len(c.extenders) > 0 {
		st.rankExtended(c, pod, ok, total)
	}
	from, _ := slices.BinarySearch(ok, int32(st.turn))
	best, top := -1, int64(-1)
	for n := range ok {
		j := n + from
		if j >= len(ok) {
			j -= len(ok)
		}
		if total[j] > top {
			best, top = int(ok[j]), total[j]
		}
	}
	return best
}

// proportion adds scores scaled so that the highest is maxScore, or worth nothing when less is better.
func proportion(raw []int64, ok []int32, total []int64, weight int64, less bool) {
	high := int64(0)
	for _, i := range ok {
		high = max(high, raw[i])
	}
	for j, i := range ok {
		v := raw[i]
		if high > 0 {
			v = maxScore * v / high
		}
		if less {
			v = maxScore - v
		}
		total[j] += weight * v
	}
}

// fits tells whether the task fits on one slot as things are, other pods' nominations for it heeded, its own not.
func (st *state) fits(t *task, i int) (ok bool) {
	if st.slots[i].node == nil {
		return false
	}
	if ok = st.passes(t.class, i); ok && len(st.slots[i].nominees) > 0 {
		st.with(i, t.class.priority, t, func() { ok = st.passes(t.class, i) })
	}
	return ok
}

func (st *state) passes(c *class, i int) bool {
	if c.check(st.slots[i]) != nil {
		return false
	}
	if !c.land.rough() {
		return true
	}
	used := st.scratch.used
	ok := st.look(c).check(c.land, i) == nil
	st.scratch.used = used
	return ok
}

// message is the text that people read: how many nodes there are, and what each lacks.
func (f *failure) message() string {
	if f.err != nil {
		return f.err.Error()
	}
	if f.nodes == 0 {
		return "no nodes available to schedule pods"
	}
	if f.pre != "" {
		return fmt.Sprintf("0/%d nodes are available: %s.", f.nodes, f.pre)
	}
	if f.text != "" {
		return f.text
	}
	alike := map[*refusal]int{}
	for _, r := range f.refused {
		alike[r]++
	}
	count := map[string]int{}
	for r, n := range alike {
		for _, why := range r.reasons {
			count[why] += n
		}
	}
	f.text = histogram(f.nodes, count)
	return f.text
}

func histogram(nodes int, count map[string]int) string {
	list := make([]string, 0, len(count))
	for why, n := range count {
		list = append(list, fmt.Sprintf("%d %s", n, why))
	}
	slices.Sort(list)
	text := fmt.Sprintf("0/%d nodes are available:", nodes)
	if len(list) > 0 {
		text += " " + strings.Join(list, ", ") + "."
	}
	return text
}
