package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// condition tells on the Node whether mode ipvs is in force. Type and reasons are kloop's own.
func (m *mode) condition(cfg *Config) corev1.NodeCondition {
	c := corev1.NodeCondition{Type: wellknown.IPVSUnavailable, Status: corev1.ConditionFalse, Reason: "KloopServesByIPVS",
		Message: "services are served by IPVS with the scheduler " + cfg.IPVS.scheduler()}
	if m.problem != "" {
		c.Status, c.Reason = corev1.ConditionTrue, "IPVSUnavailable"
		c.Message = "services are served by nftables, not by IPVS: " + m.problem
	}
	return c
}

// startTeller writes the node's condition while ctx lasts, beside the loop, which waits for no API server. Of what it is handed only the
// newest counts. In another mode than ipvs it takes the condition away.
func startTeller(ctx context.Context, cfg *Config) chan corev1.NodeCondition {
	if cfg.Self == nil {
		return nil
	}
	to := make(chan corev1.NodeCondition, 1)
	t := teller{self: cfg.Self, read: cfg.Client, events: cfg.Events, node: cfg.Node}
	if cfg.Mode != ModeIPVS {
		t.want = &corev1.NodeCondition{Type: wellknown.IPVSUnavailable}
	}
	go t.run(ctx, to)
	return to
}

type teller struct {
	self, read client.Client
	events     *client.Recorder
	node       string
	want       *corev1.NodeCondition // nil: nothing; without a status: none
}

func (t *teller) run(ctx context.Context, from <-chan corev1.NodeCondition) {
	var again <-chan time.Time
	for {
		if t.want != nil && again == nil {
			if err := t.write(ctx); err == nil {
				t.want = nil
			} else {
				again = time.After(retry)
			}
		}
		select {
		case <-ctx.Done():
			return
		case c := <-from:
			t.want, again = &c, nil
			if c.Status == corev1.ConditionTrue {
				if n := t.object(); n != nil {
					t.events.Event(kinds.Nodes, n, corev1.EventTypeWarning, c.Reason, "%s", c.Message)
				}
			}
		case <-again:
			again = nil
		}
	}
}

func (t *teller) object() *corev1.Node { return resource.Get(t.read.Read(), kinds.Nodes, "", t.node) }

func (t *teller) write(ctx context.Context) error {
	n := t.object()
	if n == nil {
		return fmt.Errorf("the Node %s is not there yet", t.node)
	}
	want, now := *t.want, metav1.Now()
	want.LastHeartbeatTime, want.LastTransitionTime = now, now
	held := false
	for _, c := range n.Status.Conditions {
		if c.Type != want.Type {
			continue
		}
		held = true
		if c.Status == want.Status {
			want.LastTransitionTime = c.LastTransitionTime
		}
		if c.Status == want.Status && c.Reason == want.Reason && c.Message == want.Message {
			return nil
		}
	}
	var entry any = want
	if want.Status == "" {
		if !held {
			return nil
		}
		entry = map[string]any{"$patch": "delete", "type": want.Type}
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{entry}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = t.self.Patch(ctx, kinds.Nodes, "", t.node, client.Patch{Type: types.StrategicMergePatchType, Data: data, Sub: "status"})
	return err
}
