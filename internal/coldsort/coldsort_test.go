package coldsort

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Both give what package slices gives; equal elements keep their order in the stable one.
func TestLikeSlices(t *testing.T) {
	t.Attr("retry", "never")
	type pair struct{ key, seq int }
	rapid.Check(t, func(t *rapid.T) {
		var list []pair
		for i, k := range rapid.SliceOfN(rapid.IntRange(0, 9), 0, 60).Draw(t, "keys") {
			list = append(list, pair{k, i})
		}
		byKey := func(a, b pair) int { return cmp.Compare(a.key, b.key) }
		whole := func(a, b pair) int { return cmp.Or(byKey(a, b), cmp.Compare(b.seq, a.seq)) }
		got, want := slices.Clone(list), slices.Clone(list)
		StableFunc(got, byKey)
		slices.SortStableFunc(want, byKey)
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		got, want = slices.Clone(list), slices.Clone(list)
		Few(got, byKey)
		slices.SortStableFunc(want, byKey)
		if !slices.Equal(got, want) {
			t.Errorf("few: %v, want %v", got, want)
		}
		Func(got, whole)
		slices.SortFunc(want, whole)
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}
