package sim

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// storageLoop answers the orders of local storage on simulated nodes: everything is done at once, and nothing is written anywhere.
//
//	reads   Node: orders, as package kinds/localvolume has them
//	writes  Node: their answers
//	rule    every order on a simulated node that is heard is done
func storageLoop() loop.Loop {
	return &loop.Controller[*corev1.Node]{
		Name:   "sim-storage",
		For:    kinds.Nodes,
		Writes: []resource.Kind{kinds.Nodes},
		Skip:   func(n *corev1.Node) bool { return !alive(n) },
		Reconcile: func(ctx context.Context, c *loop.Ctx, n *corev1.Node) (time.Duration, error) {
			answers := map[string]string{}
			for name, o := range localvolume.Orders(n) {
				if !o.Done {
					o.Done = true
					answers[localvolume.OrderPrefix+name] = o.String()
				}
			}
			if len(answers) == 0 {
				return 0, nil
			}
			data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion,
				"annotations": answers}})
			if err != nil {
				return 0, err
			}
			return 0, c.Patch(ctx, kinds.Nodes, n, client.Patch{Type: types.MergePatchType, Data: data})
		},
	}
}
