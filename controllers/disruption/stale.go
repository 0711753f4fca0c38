package disruption

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Stale is the loop that takes back what was announced and did not come: a pod that was to be disrupted, and two minutes
// later still is not being deleted, is no longer said to be.
var Stale = &loop.Controller[*corev1.Pod]{
	Name:   "disruption-stale",
	For:    kinds.Pods,
	Skip:   func(p *corev1.Pod) bool { return announced(p) == nil },
	Writes: []resource.Kind{kinds.Pods},
	Reconcile: func(ctx context.Context, c *loop.Ctx, p *corev1.Pod) (time.Duration, error) {
		if left := announced(p).LastTransitionTime.Add(confirm).Sub(c.Now()); left > 0 {
			return left, nil
		}
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": map[string]any{"conditions": []any{
			map[string]any{"type": corev1.DisruptionTarget, "status": corev1.ConditionFalse, "lastTransitionTime": metav1.NewTime(c.Now()),
				"observedGeneration": p.Generation, "reason": nil, "message": nil}}}})
		if err != nil {
			return 0, err
		}
		err = c.Patch(ctx, kinds.Pods, p, client.Patch{Type: types.StrategicMergePatchType, Data: data, Sub: "status"})
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		return 0, err
	},
}

// announced is the condition by which a living pod is said to go soon; nil: it is not, or it goes already.
func announced(p *corev1.Pod) *corev1.PodCondition {
	if p.DeletionTimestamp != nil || core.Terminal(p) {
		return nil
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue &&
			c.Reason != corev1.PodReasonTerminationByKubelet { // which may take as long as it takes
			return c
		}
	}
	return nil
}
