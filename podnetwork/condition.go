package podnetwork

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Reasons of the condition NetworkUnavailable.
const (
	reasonUp      = "KloopIsUp"
	reasonNoRange = "NoPodCIDR"
	reasonTrouble = "PodNetworkTrouble"
)

// tell writes the condition NetworkUnavailable of the own Node when it says something else. The condition is that of whoever makes the
// network, as Flannel, Calico and Cilium have it; when it is true the node lifecycle loop keeps new pods away.
func (l *loop) tell(ctx context.Context, read resource.Reader) error {
	n := resource.Get(read, kinds.Nodes, "", l.cfg.Node)
	if l.cfg.Self == nil || n == nil {
		return nil
	}
	want := condition(l.census, l.trouble)
	for _, c := range n.Status.Conditions {
		if c.Type == want.Type {
			if c.Status == want.Status && c.Reason == want.Reason && c.Message == want.Message {
				return nil
			}
			if c.Status == want.Status {
				want.LastTransitionTime = c.LastTransitionTime
			}
		}
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{want}}})
	if err != nil {
		return err
	}
	_, err = l.cfg.Self.Patch(ctx, kinds.Nodes, "", l.cfg.Node, client.Patch{Type: types.StrategicMergePatchType, Data: data, Sub: "status"})
	if apierrors.IsNotFound(err) {
		return nil // it will be made again, and that wakes us
	}
	return err
}

func condition(c census, trouble string) corev1.NodeCondition {
	now := metav1.Now()
	cond := corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: reasonUp,
		Message: "kloop's pod network is up on this node", LastHeartbeatTime: now, LastTransitionTime: now}
	if trouble != "" {
		cond.Status, cond.Reason, cond.Message = corev1.ConditionTrue, reasonTrouble, trouble
	}
	if trouble != "" && len(c.own.ranges) == 0 {
		cond.Reason = reasonNoRange
	}
	return cond
}
