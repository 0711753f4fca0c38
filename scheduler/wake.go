package scheduler

import "slices"

// A waker lets unschedulable pods try again when something changed that may help them. Of a class only the most urgent pod is woken:
// when it succeeds, the next follows.
type waker struct {
	r        *runner
	improved map[int]bool // nodes with more room, not looked at yet
}

// nodeImproved notes that a node has more room, or that a pod's labels count elsewhere.
func (w *waker) nodeImproved(t *task, i int) {
	w.improved[i] = true
	w.byTopology(t.class)
}

// class lets the most urgent unschedulable pod of a class try again; when it succeeds, the next follows.
func (w *waker) class(c *podClass) {
	if c.waiting.Len() > 0 {
		w.r.q.activate(c.waiting.list[0], w.r.env.Now())
	}
}

// wait notes that a pod of the class waits for one of these events.
func (st *state) wait(c *podClass, wakes event) {
	st.waiting[c] = true
	if wakes&podChanged != 0 {
		st.heeding[c] = true
	}
}

// unwait notes that no pod of the class waits any more.
func (st *state) unwait(c *podClass) {
	delete(st.waiting, c)
	delete(st.heeding, c)
}

// on wakes the classes that one of the events may help.
func (w *waker) on(e event) {
	for c := range w.r.st.waiting {
		if c.waiting.list[0].wakes&e != 0 {
			w.class(c)
		}
	}
}

// byTopology wakes the classes for whose topology a pod like c's counts.
func (w *waker) byTopology(c *podClass) {
	for other := range w.r.st.heeding {
		if other.waiting.list[0].wakes&podChanged == 0 || !other.ready {
			continue
		}
		if other.topology.countsPodsOf(c) || slices.ContainsFunc(c.terms,
			func(t *existingTerm) bool { return slices.Contains(other.topology.existingAnti, t) }) {
			w.class(other)
		}
	}
}

// improvedNodes wakes the classes that a node with more room can take, and the pods that wait for that very node.
func (w *waker) improvedNodes() {
	if len(w.improved) == 0 {
		return
	}
	now := w.r.env.Now()
	w.on(roomChanged)
	for i := range w.improved {
		if w.r.st.nodes[i].node == nil {
			continue
		}
		for _, t := range w.r.st.nodes[i].nominated {
			w.r.q.activate(t, now)
		}
	}
	for c := range w.r.st.waiting {
		for i := range w.improved {
			if s := w.r.st.nodes[i]; s.node != nil && (!c.ready || c.check(s) == nil) {
				w.class(c)
				break
			}
		}
	}
	clear(w.improved)
}
