// Package coldsort sorts as package slices does, in less code: slices compiles its algorithm anew for every type of element, 12 KB
// and more each, which is a fortieth of the program. For lists that are short or seldom sorted; what is hot uses slices.
package coldsort

import (
	"iter"
	"slices"
	"sort"
)

// Func sorts a list as slices.SortFunc does.
func Func[E any](list []E, cmp func(a, b E) int) {
	sort.Slice(list, func(i, j int) bool { return cmp(list[i], list[j]) < 0 })
}

// Sorted collects what a sequence has, and sorts it as slices.SortedFunc does.
func Sorted[E any](seq iter.Seq[E], cmp func(a, b E) int) []E {
	list := slices.Collect(seq)
	Func(list, cmp)
	return list
}

// StableFunc sorts a list as slices.SortStableFunc does.
func StableFunc[E any](list []E, cmp func(a, b E) int) {
	sort.SliceStable(list, func(i, j int) bool { return cmp(list[i], list[j]) < 0 })
}

// few is up to how many elements are sorted in place.
const few = 12

// Few is StableFunc for lists of mostly a few elements, which it sorts as quickly as slices.SortStableFunc does.
func Few[E any](list []E, cmp func(a, b E) int) {
	if len(list) > few {
		StableFunc(list, cmp)
		return
	}
	for i := range list {
		for j := i; j > 0 && cmp(list[j], list[j-1]) < 0; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}
