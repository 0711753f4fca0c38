package loop

import (
	"maps"
	"slices"
	"sync"
	"testing"
)

func TestFigures(t *testing.T) {
	sizes := &Figure{Name: "sizes", Bounds: Doubling(1, 3)}
	count := &Figure{Name: "count", Labels: []string{"a", "b"}}
	var f Figures
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				f.Series(count, "x", "y").Add(1)
			}
		})
	}
	wg.Wait()
	f.Series(count, "never", "").Add(0)
	if s := f.Series(count, "x", "y"); s.Sum() != 800 || s.Count() != 800 || !slices.Equal(s.Labels, []string{"x", "y"}) {
		t.Errorf("%v %d %v", s.Sum(), s.Count(), s.Labels)
	}
	f.Series(count, "kept", "for later")
	s := f.Series(sizes)
	for _, v := range []float64{0.5, 1, 1.5, 4, 9} {
		s.Add(v)
	}
	if want := map[float64]uint64{1: 2, 2: 3, 4: 4}; !maps.Equal(s.Buckets(), want) || s.Count() != 5 || s.Sum() != 16 {
		t.Errorf("%v, want %v; %d of %v", s.Buckets(), want, s.Count(), s.Sum())
	}
	if n := len(f.All()); n != 3 {
		t.Errorf("%d series, want 3: what was never counted is not told, if it has labels", n)
	}
	var none *Figures
	none.Series(sizes).Add(1)
	if len(none.All()) != 0 {
		t.Error("nobody tells")
	}
}
