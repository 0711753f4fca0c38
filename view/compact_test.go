package view_test

import (
	"slices"
	"testing"

	core "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// compacted notes what it is to compact.
type compacted struct {
	*resource.Def[*core.Pod]
	seen *[]resource.Object
}

func (k compacted) Compact(objs []resource.Object) { *k.seen = append(*k.seen, objs...) }

// A kind that can compact its objects is given all of them, and no others.
func TestCompact(t *testing.T) {
	var seen []resource.Object
	k := compacted{pods, &seen}
	r := start(t, view.Config{}, k, maps)
	r.wait(r.put(maps, cm("a", "m", "")))
	if r.v.Compact(); len(seen) != 0 {
		t.Errorf("%d objects where there are none", len(seen))
	}
	r.put(k, pod("b", "p"))
	r.wait(r.put(k, pod("a", "p")))
	r.v.Compact()
	if want := slices.Collect(r.v.Snapshot().Each(k, "")); len(want) != 2 || !slices.Equal(seen, want) {
		t.Errorf("compacted %v, want %v", seen, want)
	}
}
