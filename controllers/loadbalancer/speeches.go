package loadbalancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// speeches writes what each node is to announce by BGP. A node whose Lease goes ends its sessions.
func speeches(ctx context.Context, c *loop.Ctx, w *world, b *book) error {
	have := map[string]*coordinationv1.Lease{}
	for obj := range c.ByLabel(kinds.Leases, wellknown.AnnounceSpace, wellknown.AnnounceLabel, "bgp") {
		have[obj.GetName()] = resource.As[*coordinationv1.Lease](obj)
	}
	var errs []error
	if b != nil {
		plans := b.plans(w)
		for _, node := range slices.Sorted(maps.Keys(plans)) {
			text, err := json.Marshal(plans[node])
			if err != nil {
				return err
			}
			may, err := json.Marshal([]wellknown.Candidate{{Node: node}}) // to write into it
			if err != nil {
				return err
			}
			name := wellknown.BGPLease(node)
			errs = append(errs, lease(ctx, c, have[name], name, "bgp", map[string]string{wellknown.BGPPlanned: string(text),
				wellknown.AnnouncedCandidates: string(may)}))
			delete(have, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		errs = append(errs, c.Delete(ctx, kinds.Leases, have[name]))
	}
	return errors.Join(errs...)
}

// ready is the condition of a peer: how many of the nodes that should have a session with it have one. It is pure.
func (p *peer) ready(nodes []*corev1.Node, sessions map[string]map[string]wellknown.BGPSession) verdict {
	if p.broken != "" {
		return verdict{false, p.reason(), p.broken}
	}
	var t tally
	for _, n := range nodes {
		if matches(p.nodes, n.Labels) {
			t.count(n, p.Name, sessions[n.Name][p.Name])
		}
	}
	switch {
	case t.all == 0:
		return verdict{false, "NoNode", "its nodeSelectors select no node"}
	case t.up < t.all:
		return verdict{false, "NotEstablished", fmt.Sprintf("%d of %d nodes have a session with it; %s", t.up, t.all, t.trouble)}
	}
	return verdict{true, "Established", fmt.Sprintf("%d of %d nodes have a session with it", t.up, t.all)}
}

// peerStatuses writes the condition Ready of every BGPPeer.
func peerStatuses(ctx context.Context, c *loop.Ctx, set *resource.Set, w *world) error {
	k, ok := set.GR(schema.GroupResource{Group: group, Resource: "bgppeers"})
	if !ok {
		return nil
	}
	var errs []error
	for _, p := range w.peers {
		v := p.ready(w.nodes, w.sessions)
		next := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: v.reason, Message: v.says,
			LastTransitionTime: metav1.Time{Time: c.Now().Truncate(time.Second)}}
		if v.ok {
			next.Status = metav1.ConditionTrue
		}
		if p.status.Status == next.Status && p.status.Reason == next.Reason && p.status.Message == next.Message {
			continue
		}
		if p.status.Status == next.Status {
			next.LastTransitionTime = p.status.LastTransitionTime
		}
		data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []metav1.Condition{next}}})
		if err != nil {
			return err
		}
		if err := c.Patch(ctx, k, p.object, client.Patch{Type: types.MergePatchType, Data: data,
			Sub: "status"}); !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
