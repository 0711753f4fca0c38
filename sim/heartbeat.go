package sim

import (
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/nodelifecycle"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// LeaseName is the one lease, in kube-node-lease, that all simulated nodes share: a hundred thousand nodes send
// one heartbeat. The node lifecycle loop reads it for nodes with the annotation Fake.
const LeaseName = nodelifecycle.SimulatedLease

// beat is well below the shortest grace period that anybody sets.
const beat = 5 * time.Second

// heartbeat renews the shared lease while there are simulated nodes.
type heartbeat struct{}

// LoopName implements loop.Loop.
func (heartbeat) LoopName() string { return "sim-heartbeat" }

// Run implements loop.Loop. It wakes on nodes, and beats only while there is one to beat for.
func (heartbeat) Run(ctx context.Context, env loop.Env) error {
	feed := env.Client.Feed(kinds.Nodes)
	for {
		b, err := feed.Next(ctx)
		if err != nil {
			return nil
		}
		if !begins(&b) {
			continue // or each change of a real node would have all of them looked at
		}
		for anySimulated(env.Client.Read()) {
			if err := renew(ctx, env.Client); err != nil && ctx.Err() == nil {
				env.Log.Warn("renew the lease of the simulated nodes", "err", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(beat):
			}
		}
	}
}

// begins says that there may be simulated nodes where there were none.
func begins(b *client.Batch) bool {
	return b.Reset || slices.ContainsFunc(b.Changes, func(c client.Change) bool {
		n, ok := c.New.(*corev1.Node)
		return ok && alive(n)
	})
}

func anySimulated(read resource.Reader) bool {
	for obj := range read.Each(kinds.Nodes, "") {
		if alive(obj.(*corev1.Node)) {
			return true
		}
	}
	return false
}

func renew(ctx context.Context, c client.Client) error {
	now, seconds, who := metav1.NowMicro(), int32(40), "kloop"
	cur := resource.Get(c.Read(), kinds.Leases, corev1.NamespaceNodeLease, LeaseName)
	if cur == nil {
		_, err := c.Create(ctx, kinds.Leases, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: LeaseName},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &seconds, RenewTime: &now}})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	next := resource.Clone(cur)
	next.Spec.RenewTime = &now
	_, err := c.Update(ctx, kinds.Leases, next, "")
	return err
}
