package cluster

import (
	"fmt"
	"testing"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// What Prometheus is given stays small however large the cluster is, and counts every gap.
func TestSeries(t *testing.T) {
	var list []*convergence.Gap
	for i := range 3000 {
		list = append(list, &convergence.Gap{Owner: fmt.Sprint("node agent on node-", i), Cause: "OutOfMemory", State: converge.BackingOff},
			&convergence.Gap{Owner: fmt.Sprint("controller-", i), Cause: "NotReady", State: converge.Waiting},
			&convergence.Gap{Owner: "a person", Cause: "Paused", State: converge.Resting})
	}
	got, sum := seriesOf(list), 0
	for _, n := range got {
		sum += n
	}
	agents := got[[3]string{"node agent", "OutOfMemory", converge.BackingOff}]
	if len(got) > maxSeries+1 || sum != 6000 || agents != 3000 {
		t.Errorf("%d series count %d of 6000 gaps, %d of 3000 of node agents", len(got), sum, agents)
	}
}
