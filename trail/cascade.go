package trail

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A Graph says which write followed from which. It is made once and not changed.
type Graph struct {
	writes []Write // by revision
	at     map[int64]int
	parent []int // -1: none is known
	below  [][]int
}

// NewGraph links the writes. A loop's write follows from the newest change that woke the loop; if that is not known, from
// the newest one of the object that it worked on.
func NewGraph(writes []Write) *Graph {
	g := &Graph{writes: slices.Clone(writes), at: map[int64]int{}}
	coldsort.Func(g.writes, func(a, b Write) int { return cmp.Compare(a.Rev, b.Rev) })
	g.parent, g.below = make([]int, len(g.writes)), make([][]int, len(g.writes))
	newest := map[Ref]int{} // of an object, so far
	for i := range g.writes {
		w := &g.writes[i]
		g.at[w.Rev] = i
		g.parent[i] = g.cause(w, newest)
		if p := g.parent[i]; p >= 0 {
			g.below[p] = append(g.below[p], i)
		}
		newest[w.object()] = i
	}
	return g
}

// object is the write's object, without the revision.
func (w *Write) object() Ref { r := w.Ref; r.Rev = 0; return r }

func (g *Graph) cause(w *Write, newest map[Ref]int) int {
	if w.Cause == nil {
		return -1
	}
	if r, ok := w.Parent(); ok {
		if p, known := g.at[r.Rev]; known {
			return p
		}
	}
	key := w.Cause.Key
	key.Rev = 0
	if p, known := newest[key]; known {
		return p
	}
	return -1
}

// Of returns the writes of an object, oldest first.
func (g *Graph) Of(object Ref) (list []Write) {
	for i := range g.writes {
		if g.writes[i].object() == object {
			list = append(list, g.writes[i])
		}
	}
	return list
}

// deepest bounds how far causes are followed.
const deepest = 32

// Because returns what led to a write: its cause, the cause of that, and so on.
func (g *Graph) Because(w Write) (list []Write) {
	i, ok := g.at[w.Rev]
	for ok && len(list) < deepest && g.parent[i] >= 0 {
		i = g.parent[i]
		list = append(list, g.writes[i])
	}
	return list
}

// Around returns all that is about an object: its writes, what led to them, and what followed from them.
func (g *Graph) Around(object Ref) (list []Write) {
	in := make([]bool, len(g.writes))    // it, and what followed from it
	leads := make([]bool, len(g.writes)) // to it; what else followed from that is not asked for
	for i := range g.writes {
		p := g.parent[i]
		if in[i] = g.writes[i].object() == object || p >= 0 && in[p]; !in[i] {
			continue
		}
		for n := 0; p >= 0 && !in[p] && n < deepest; n++ {
			leads[p] = true
			p = g.parent[p]
		}
	}
	for i := range g.writes {
		if in[i] || leads[i] {
			list = append(list, g.writes[i])
		}
	}
	return list
}

// A Step is a write of a cascade, or several alike that followed from the same one.
type Step struct {
	Write
	Count int
	Last  time.Time // of the last of them
	Below []*Step
}

// Start returns the best beginning for the cascade of an object: the newest thing that somebody from outside did to it, or
// else its first write that is known; false: none is.
func (g *Graph) Start(object Ref) (Write, bool) {
	own := g.Of(object)
	if len(own) == 0 {
		return Write{}, false
	}
	for i := len(own) - 1; i >= 0; i-- {
		if own[i].Cause == nil && own[i].What != "status" {
			return own[i], true
		}
	}
	return own[0], true
}

// Cascade is all that followed from a write, as a tree. Writes that only follow the state of others (a bare status) are
// left out where nothing followed from them.
func (g *Graph) Cascade(w Write) *Step {
	i, ok := g.at[w.Rev]
	if !ok {
		return nil
	}
	return &Step{Write: g.writes[i], Count: 1, Last: g.writes[i].At, Below: g.group(g.below[i], 0)}
}

// group turns writes that followed from the same one, or from several alike, into steps.
func (g *Graph) group(list []int, depth int) (steps []*Step) {
	if depth == deepest {
		return nil
	}
	type key struct{ resource, verb, what, by string }
	at := map[key]*Step{}
	members := map[*Step][]int{}
	for _, i := range list {
		w := &g.writes[i]
		if w.What == "status" && len(g.below[i]) == 0 {
			continue
		}
		k := key{w.Resource, w.Verb, alike(w.What), w.By()}
		s := at[k]
		if s == nil {
			s = &Step{Write: *w, Last: w.At}
			at[k] = s
			steps = append(steps, s)
		}
		s.Count++
		s.Last = w.At
		members[s] = append(members[s], g.below[i]...)
	}
	for _, s := range steps {
		s.Below = g.group(members[s], depth+1)
	}
	return steps
}

// alike takes off what differs between writes that mean the same.
func alike(what string) string {
	if strings.HasPrefix(what, "bound to ") {
		return "bound"
	}
	if strings.HasSuffix(what, ofOwners) {
		return "belongs to others" + ofOwners
	}
	return what
}

// By made the write, in a word: a loop, or a person or program by the name that it gives itself.
func (w *Write) By() string {
	if w.Cause != nil {
		return w.Cause.Loop
	}
	name, _, _ := strings.Cut(w.Agent, "/")
	switch {
	case w.Manager != "" && w.Manager != "kloop":
		return w.Manager
	case name != "":
		return name
	}
	return w.User
}

// Hide takes the user out of a write, also where nothing else says who made it.
func (w *Write) Hide() {
	if w.Cause == nil && w.By() == w.User {
		w.Manager = "somebody"
	}
	w.User = ""
}
