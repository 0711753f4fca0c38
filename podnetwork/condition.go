package podnetwork

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
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/podnetwork/wireguard"
	"github.com/kloop-dev/kloop/resource"
)

// Reasons of the condition NetworkUnavailable.
const (
	reasonUp      = "KloopIsUp"
	reasonNoRange = "NoPodCIDR"
	reasonTrouble = wellknown.PodNetworkTrouble
)

// tell writes the condition NetworkUnavailable of the own Node when it says something else. The condition is that of whoever makes the
// network, as Flannel, Calico and Cilium have it; when it is true the node lifecycle loop keeps new pods away.
func (l *loop) tell(ctx context.Context, read resource.Reader) error {
	n := resource.Get(read, kinds.Nodes, "", l.cfg.Node)
	if l.cfg.Self == nil || n == nil {
		return nil
	}
	var list []any
	if c, same := compare(n, condition(l.census, l.trouble)); !same {
		list = append(list, c)
	}
	peers, same := compare(n, l.peers())
	switch {
	case l.cfg.Mode == ModeWireGuard && !same:
		list = append(list, peers)
	case l.cfg.Mode != ModeWireGuard && conditionOf(n, peers.Type) != nil: // it was, before
		list = append(list, map[string]any{"type": peers.Type, "$patch": "delete"})
	}
	if len(list) == 0 {
		return nil
	}
	return l.patch(ctx, "status", map[string]any{"status": map[string]any{"conditions": list}})
}

// told bounds a write: an API server that does not answer keeps nobody from looking after the kernel.
const told = 10 * time.Second

// patch changes the own Node.
func (l *loop) patch(ctx context.Context, sub string, change any) error {
	ctx, cancel := context.WithTimeout(ctx, told)
	defer cancel()
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = l.cfg.Self.Patch(ctx, kinds.Nodes, "", l.cfg.Node, client.Patch{Type: types.StrategicMergePatchType, Data: data, Sub: sub})
	if apierrors.IsNotFound(err) {
		return nil // it will be made again, and that wakes us
	}
	return err
}

// publish writes the public key into the own Node, or takes it back.
func (l *loop) publish(ctx context.Context) error {
	var key any
	if l.cfg.Mode == ModeWireGuard && l.public != (wireguard.Key{}) {
		key = l.public.String()
	}
	if l.cfg.Self == nil || key == nil && l.census.own.key == "" || key == l.census.own.key {
		return nil
	}
	return l.patch(ctx, "", map[string]any{"metadata": map[string]any{"annotations": map[string]any{wellknown.WireGuardKey: key}}})
}

func conditionOf(n *corev1.Node, typ corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == typ {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// compare says whether the Node has the condition, which else keeps the time at which its status changed.
func compare(n *corev1.Node, want corev1.NodeCondition) (corev1.NodeCondition, bool) {
	c := conditionOf(n, want.Type)
	if c == nil {
		return want, false
	}
	if c.Status == want.Status {
		want.LastTransitionTime = c.LastTransitionTime
	}
	return want, c.Status == want.Status && c.Reason == want.Reason && c.Message == want.Message
}

// peers is the condition SilentPeers: what it says need not be this node's fault, and keeps no pod away from it.
func (l *loop) peers() corev1.NodeCondition {
	now := metav1.Now()
	c := corev1.NodeCondition{Type: wellknown.SilentPeers, Status: corev1.ConditionFalse, Reason: "PeersAnswer",
		Message: "every other node answers", LastHeartbeatTime: now, LastTransitionTime: now}
	if l.silent != "" {
		c.Status, c.Reason = corev1.ConditionTrue, "PeersSilent"
		c.Message = "pods of these nodes are not reached through WireGuard: " + l.silent
	}
	return c
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
