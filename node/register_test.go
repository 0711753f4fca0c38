package node

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
)

// TestBusyStart: others write the Node whenever the runtime is asked. The agent starts all the same.
func TestBusyStart(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		n := 0
		r.rt.asked = func() {
			n++
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"written":"%d"}}}`, n)
			if _, err := r.Patch(r.t.Context(), kinds.Nodes, "", "n", client.Patch{Type: types.MergePatchType, Data: patch}); err != nil {
				t.Error(err)
			}
		}
		r.start()
		r.rests(time.Minute)
		if status, message := r.readiness(); status != corev1.ConditionTrue || n == 0 {
			t.Errorf("Ready is %s: %q; the runtime was asked %d times", status, message, n)
		}
		r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
	})
}
