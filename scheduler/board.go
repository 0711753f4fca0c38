package scheduler

// A board remembers what every node by itself means to a class. Only slots that changed are looked at again.
type board struct {
	filled  bool
	at      int64      // number of the next change to look at
	verdict []*refusal // by slot; nil: the node can take a pod
	base    []int64    // by slot: the scores that need no comparison
	raw     [][]int64  // by score that does, by slot
	some    []int      // by score: how many slots are above zero
	counts  []uint32   // by slot: the constraints that it counts for

	imageEpoch, imageSum int64
	volEpoch             int64
}

// noNode is the verdict on a slot without a node; it never shows.
var noNode = &refusal{hopeless: true}

// refresh brings the class's board up to date.
func (st *state) refresh(c *class) *board {
	c.prepare()
	if c.land.svcEpoch != st.svcEpoch && !c.land.strict {
		c.strip()
		c.prepare()
	}
	c.land.others(st, c)
	b := c.board
	stale := !b.filled || b.at < st.journalAt || int(st.now()-b.at) > len(st.slots) || b.volEpoch != st.volEpoch && len(c.claims) > 0
	if b.imageEpoch != st.imageEpoch {
		b.imageEpoch = st.imageEpoch
		if sum := st.imageSum(c); b.imageSum != sum {
			b.imageSum, stale = sum, true
		}
	}
	if stale && len(c.claims) > 0 {
		c.volumes = st.volumesOf(c)
	}
	b.size(len(st.slots), len(c.scores))
	if stale {
		for i := range st.slots {
			st.look1(c, i)
		}
		b.filled, b.volEpoch = true, st.volEpoch
	} else {
		for _, i := range st.journal[b.at-st.journalAt:] {
			st.look1(c, int(i))
		}
	}
	b.at = st.now()
	return b
}

func (b *board) size(slots, scores int) {
	for len(b.raw) < scores {
		b.raw = append(b.raw, nil)
		b.some = append(b.some, 0)
	}
	for more := slots - len(b.verdict); more > 0; more-- {
		b.verdict = append(b.verdict, noNode)
		b.base = append(b.base, 0)
		b.counts = append(b.counts, 0)
		for k := range b.raw {
			b.raw[k] = append(b.raw[k], 0)
		}
	}
}

// look1 looks at one slot again.
func (st *state) look1(c *class, i int) {
	b, s := c.board, st.slots[i]
	b.verdict[i], b.counts[i], b.base[i] = noNode, 0, 0
	if s.node == nil {
		for k := range c.scores {
			b.setRaw(k, i, 0)
		}
		return
	}
	b.counts[i] = c.land.counts(c, i, s)
	b.verdict[i] = c.check(s)
	if b.verdict[i] == nil && len(s.nominees) > 0 {
		st.with(i, c, nil, func() { b.verdict[i] = c.check(s) })
	}
	for k := range c.scores {
		sc := &c.scores[k]
		v := int64(0)
		if b.verdict[i] == nil {
			v = sc.of(c, s)
		}
		if sc.norm == absolute {
			b.base[i] += sc.weight * v
		} else {
			b.setRaw(k, i, v)
		}
	}
}

func (b *board) setRaw(k, i int, v int64) {
	if old := b.raw[k][i]; (old == 0) != (v == 0) {
		if v == 0 {
			b.some[k]--
		} else {
			b.some[k]++
		}
	}
	b.raw[k][i] = v
}
