package node

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// heartbeat renews the lease until ctx ends, whatever else takes its time.
func (ns *nodeStatus) heartbeat(ctx context.Context) {
	for {
		within, cancel := context.WithTimeout(ctx, max(ns.cfg.Beat, leaseEvery))
		if err := ns.renew(within); err != nil && ctx.Err() == nil {
			ns.complain("renew the node's lease", err)
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-time.After(ns.cfg.Beat):
		}
	}
}

// renew writes the lease, and makes one where there is none. It belongs to the Node, so that it goes with it: none is made while the Node
// can't be read, and one that has no owner gets it as soon as the Node can. One that is there is renewed in any case.
func (ns *nodeStatus) renew(ctx context.Context) error {
	now, seconds := metav1.NowMicro(), int32(leaseFor)
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: ns.cfg.Name}}
	obj, err := ns.cfg.Client.Get(ctx, kinds.Leases, next.Namespace, next.Name)
	missing := apierrors.IsNotFound(err)
	switch {
	case err == nil:
		next = resource.Clone(obj.(*coordinationv1.Lease))
	case !missing:
		return err
	}
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds, next.Spec.RenewTime = &ns.cfg.Name, &seconds, &now
	var ownerless error
	if len(next.OwnerReferences) == 0 {
		var n *corev1.Node
		if n, ownerless = ns.node(ctx); ownerless == nil {
			next.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
		}
	}
	switch {
	case missing && ownerless != nil:
		return ownerless
	case missing:
		_, err = ns.cfg.Client.Create(ctx, kinds.Leases, next)
	default:
		_, err = ns.cfg.Client.Update(ctx, kinds.Leases, next, "")
	}
	return errors.Join(err, ownerless)
}

// complain logs what failed. That the Node is gone it says once, until the Node's status could be written again.
func (ns *nodeStatus) complain(doing string, err error) {
	switch {
	case !ofNoNode(err):
		ns.log.Warn(doing, "err", err)
	case ns.gone.CompareAndSwap(false, true):
		ns.log.Warn("the Node is gone: somebody deleted it while its agent runs, and the cluster gives it no pods any more; " +
			"restart this agent to register the Node again, or stop it")
	}
}

// ofNoNode says that err is the server's, that there is no such Node.
func ofNoNode(err error) bool {
	var st apierrors.APIStatus
	return errors.As(err, &st) && st.Status().Reason == metav1.StatusReasonNotFound && st.Status().Details != nil &&
		st.Status().Details.Kind == kinds.Nodes.Plural
}
