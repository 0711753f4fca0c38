package apply

import "github.com/kloop-dev/kloop/internal/coldsort"

// An element is an item of a list with its key.
type element struct {
	keys  []key
	v     val
	index int
}

// inOrder sorts the items of a list by their keys, and says whether no two have the same: more than one can tell apart.
func inOrder(list []element) bool {
	coldsort.Few(list, func(a, b element) int { return compareKeys(a.keys, b.keys) })
	for i := 1; i < len(list); i++ {
		if compareKeys(list[i-1].keys, list[i].keys) == 0 {
			return false
		}
	}
	return true
}

// next takes the first items off two sorted lists that are not both empty: one of each if their keys are the same, else the lesser
// one. A side that has none keeps its value.
func next(ls, rs *[]element, x, y *val) (keys []key) {
	c := 0
	switch {
	case len(*ls) == 0:
		c = 1
	case len(*rs) == 0:
		c = -1
	default:
		c = compareKeys((*ls)[0].keys, (*rs)[0].keys)
	}
	if c <= 0 {
		*x, keys, *ls = (*ls)[0].v, (*ls)[0].keys, (*ls)[1:]
	}
	if c >= 0 {
		*y, keys, *rs = (*rs)[0].v, (*rs)[0].keys, (*rs)[1:]
	}
	return keys
}
