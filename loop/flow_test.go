package loop

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func TestFlow(t *testing.T) {
	pods := &Controller[*corev1.Pod]{For: kinds.Pods, Writes: []resource.Kind{kinds.Pods, kinds.Leases}}
	if keeps, writes := pods.flow(); keeps != "pods" || !slices.Equal(writes, []string{"pods", "leases.coordination.k8s.io"}) {
		t.Errorf("keeps %q, writes %q", keeps, writes)
	}
	all := &Controller[resource.Object]{Writes: Anything}
	if keeps, writes := all.flow(); keeps != "*" || !slices.Equal(writes, []string{"*"}) {
		t.Errorf("of everything: keeps %q, writes %q", keeps, writes)
	}
	none := &Controller[*corev1.Pod]{For: kinds.Pods}
	if _, writes := none.flow(); len(writes) > 0 {
		t.Errorf("of a loop that only looks: writes %q", writes)
	}
}
