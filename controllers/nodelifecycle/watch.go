package nodelifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// watch remembers when each node last gave a sign of life, by this machine's clock: the clocks of nodes may be
// wrong, and after a restart every node gets a whole grace period again.
type watch struct {
	grace time.Duration

	mu    sync.Mutex
	seen  map[string]*sign
	since time.Time          // older nodes are no news
	limit map[string]*bucket // by zone
}

// sign is a node's last sign of life, and when it was seen.
type sign struct {
	renewed time.Time // of its lease
	beat    time.Time // of its status
	at      time.Time
	uid     types.UID // of the node, once it was told of
}

// silence says whether the node has been silent for too long, and if not, when it would have been.
func (w *watch) silence(n *corev1.Node, lease *coordinationv1.Lease, now time.Time) (silent bool, again time.Duration) {
	at := w.note(n, lease, now)
	grace := w.grace
	if find(n, corev1.NodeReady) == nil {
		grace = max(grace, startGrace)
	}
	if left := at.Add(grace).Sub(now); left > 0 {
		return false, left + time.Millisecond
	}
	return true, 0
}

// confirm asks the store itself before a node counts as lost: what is read here may lag behind, and then it is not the node that is
// silent. again: look again by then.
func confirm(ctx context.Context, c *loop.Ctx, n *corev1.Node, lease *coordinationv1.Lease) (silent bool, again time.Duration, err error) {
	name, known := n.Name, ""
	if lease != nil {
		name, known = lease.Name, lease.ResourceVersion
	}
	live, err := c.Client().Get(ctx, kinds.Leases, corev1.NamespaceNodeLease, name)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, 0, fmt.Errorf("look whether node %s is silent: %w", n.Name, err)
	case live.GetResourceVersion() != known:
		return false, time.Second, nil
	}
	return true, 0, nil
}

// note records what can be heard of the node now and returns when it was last heard.
func (w *watch) note(n *corev1.Node, lease *coordinationv1.Lease, now time.Time) time.Time {
	var renewed, beat time.Time
	if lease != nil && lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.Time
	}
	if r := find(n, corev1.NodeReady); r != nil {
		beat = r.LastHeartbeatTime.Time
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seen[n.Name]
	switch {
	case s == nil:
		s = &sign{renewed: renewed, beat: beat, at: now}
		w.seen[n.Name] = s
	case s.uid != "" && s.uid != n.UID: // another one of the name, whose end nobody saw
		*s = sign{renewed: renewed, beat: beat, at: now, uid: s.uid}
	case w.news(s.renewed, renewed) || w.news(s.beat, beat):
		s.renewed, s.beat, s.at = renewed, beat, now
	}
	return s.at
}

// news says that a sign of life is another than the last. A much older one counts, as the node's clock was set back. A little older one
// comes of a look at the state before.
func (w *watch) news(was, is time.Time) bool {
	return is.After(was) || !is.IsZero() && was.Sub(is) > w.grace/2
}

// meet says whether the node is one that nobody was told of.
func (w *watch) meet(n *corev1.Node) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seen[n.Name]
	if s == nil || s.uid == n.UID {
		return false
	}
	s.uid = n.UID
	return !n.CreationTimestamp.Time.Before(w.since)
}

// forget returns what the node was, if it was told of.
func (w *watch) forget(node string) (uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.seen[node]; s != nil {
		uid = s.uid
	}
	delete(w.seen, node)
	return uid
}

// leaseOf is the lease whose renewal is the node's heartbeat. A simulated node that is lost does not share the others'.
func leaseOf(read resource.Reader, n *corev1.Node) *coordinationv1.Lease {
	own := resource.Get(read, kinds.Leases, corev1.NamespaceNodeLease, n.Name)
	if own == nil && n.Annotations[Fake] == "fake" && n.Annotations[Lost] == "" {
		return resource.Get(read, kinds.Leases, corev1.NamespaceNodeLease, SimulatedLease)
	}
	return own
}
