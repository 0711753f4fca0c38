package view_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// compacted tells what it is to compact.
type compacted struct {
	*resource.Def[*corev1.Pod]
	tell func(objs []resource.Object)
}

func (k *compacted) Compact(objs []resource.Object) { k.tell(objs) }

// A kind that can compact its objects is given all of them, and no others.
func TestCompact(t *testing.T) {
	var seen []resource.Object
	k := &compacted{pods, func(objs []resource.Object) { seen = append(seen, objs...) }}
	r := start(t, view.Config{}, k, maps)
	r.wait(r.put(maps, cm("a", "m", "")))
	r.v.Cursor(0, k)
	if r.v.Compact(); len(seen) != 0 {
		t.Errorf("%d objects where there are none", len(seen))
	}
	r.put(k, pod("b", "p"))
	r.wait(r.put(k, pod("a", "p")))
	r.v.Compact()
	want := slices.Collect(r.v.Snapshot().Each(k, ""))
	if len(want) != 2 || !slices.Equal(seen, want) {
		t.Errorf("compacted %v, want %v", seen, want)
	}
	// What the history keeps of former states is compacted as well.
	r.put(k, pod("a", "p", func(p *corev1.Pod) { p.Spec.NodeName = "n" }))
	r.wait(r.del(k, "b", "p"))
	seen = nil
	r.v.Compact()
	if now := slices.Collect(r.v.Snapshot().Each(k, "")); len(now) != 1 || !slices.Equal(seen, append(now, want...)) {
		t.Errorf("with a past: compacted %v", seen)
	}
}

// Many new objects are compacted without being told to.
func TestCompactGrown(t *testing.T) {
	const most = 10_000
	counts := make(chan int, most)
	k := &compacted{pods, func(objs []resource.Object) { counts <- len(objs) }}
	r := start(t, view.Config{}, k)
	for i := range most {
		r.put(k, pod("a", fmt.Sprint(i)))
	}
	if n := <-counts; n < most/10 {
		t.Errorf("compacted %d", n)
	}
}
