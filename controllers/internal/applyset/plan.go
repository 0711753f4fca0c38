package applyset

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A member is an object of the set that the cluster holds.
type member struct {
	id     ID
	origin string
	mark   string // changes when anybody changes what a manifest can say
	set    string // the ApplySet that it belongs to, "" for none
	keep   bool   // is not pruned
	going  bool   // is being deleted
	uid    types.UID
}

// settled records an object as it was last applied: with this manifest, when it had this mark, nothing changed.
type settled struct{ hash, mark string }

// A todo is the difference between a source and the cluster.
type todo struct {
	apply   []Wish     // in this order
	prune   []member   // in this order
	kept    []ID       // would be pruned, but for what goes with them
	taken   []conflict // objects that are members of another set
	doubles []conflict // described twice
}

type conflict struct {
	id     ID
	origin string
	by     string
}

// brake is from how many members on a source that lost more than half of them is not believed.
const brake = 10

// plan is pure. lost says whether the source is sure not to describe anything of this origin any more; seen are objects that need no
// look; surely says that a person has confirmed that many may go.
func plan(set string, want []named, have map[ID]member, lost func(origin string) bool, seen map[ID]settled, surely bool) (d todo,
	stopped int) {
	wanted := map[ID]string{}
	coldsort.StableFunc(want, func(a, b named) int { return byRank(a.id, b.id) })
	for _, w := range want {
		if first, twice := wanted[w.id]; twice {
			d.doubles = append(d.doubles, conflict{w.id, w.Origin, first})
			continue
		}
		wanted[w.id] = w.Origin
		m, there := have[w.id]
		switch {
		case there && m.set != "" && m.set != set:
			d.taken = append(d.taken, conflict{w.id, w.Origin, m.set})
		case there && !m.going && m.set == set && m.origin == w.Origin && seen[w.id] == settled{w.Hash, m.mark}:
		default:
			d.apply = append(d.apply, w.Wish)
		}
	}
	ours := 0
	for id, m := range have {
		if m.set != set {
			continue
		}
		ours++
		if _, ok := wanted[id]; ok || m.going || !lost(m.origin) {
			continue
		}
		if m.keep {
			d.kept = append(d.kept, id)
			continue
		}
		d.prune = append(d.prune, m)
	}
	coldsort.Func(d.kept, byRank)
	coldsort.Func(d.prune, func(a, b member) int { return byRank(b.id, a.id) })
	if n := len(d.prune); ours >= brake && n > ours/2 && !surely {
		d.prune, stopped = nil, n
	}
	return d, stopped
}

// named is a wish with the kind and namespace that the cluster takes it for.
type named struct {
	Wish
	id ID
}
