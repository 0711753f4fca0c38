// Package nodelifecycle notices nodes that fell silent and tells the rest of the cluster.
//
//	reads   Node, Leases in kube-node-lease, the Pods on a node
//	writes  Node: status conditions, taints, labels; Pod: status
//	rule    a node without a sign of life for the grace period has its conditions Unknown; taints follow conditions; the pods
//	        of a node that is not ready are not ready; NoExecute taints come slowly when many nodes are lost
package nodelifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	topology "k8s.io/component-helpers/node/topology"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Simulated nodes, those with the annotation Fake, share the one lease SimulatedLease: a hundred thousand of
// them send one heartbeat. One that has a lease of its own goes by that.
const (
	Fake           = core.FakeNode
	Lost           = "sim.kloop.dev/lost" // a simulated node with it has fallen silent
	SimulatedLease = "kloop-simulated-nodes"
)

// DefaultGrace is the silence after which a node counts as lost.
const DefaultGrace = 50 * time.Second

// startGrace is the time that a node has for its first report.
const startGrace = 60 * time.Second

// Controller returns the loop; grace 0 means DefaultGrace. Wake on a Node, on the lease of a node that was lost,
// and when a grace period runs out.
func Controller(grace time.Duration) *loop.Controller[*corev1.Node] {
	if grace == 0 {
		grace = DefaultGrace
	}
	w := &watch{grace: grace, seen: map[string]*sign{}, limit: map[string]*bucket{}, since: time.Now().Truncate(time.Second)}
	return &loop.Controller[*corev1.Node]{
		Name:      "node-lifecycle",
		For:       kinds.Nodes,
		Wake:      []loop.Wake{{Kind: kinds.Leases, Keys: w.heard}},
		Writes:    []resource.Kind{kinds.Nodes, kinds.Pods},
		Reconcile: w.reconcile,
		Gone: func(_ context.Context, c *loop.Ctx, key loop.Key) (time.Duration, error) {
			if uid := w.forget(key.Name); uid != "" {
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: key.Name, UID: uid}}
				c.Event(kinds.Nodes, n, corev1.EventTypeNormal, "RemovingNode", "Node %s event: Removing Node %s from Controller", key.Name, key.Name)
			}
			return 0, nil
		},
	}
}

func (w *watch) reconcile(ctx context.Context, c *loop.Ctx, n *corev1.Node) (time.Duration, error) {
	if n.DeletionTimestamp != nil {
		return 0, nil
	}
	lease := leaseOf(c, n)
	silent, again := w.silence(n, lease, time.Now()) // observe, by the clock that nobody sets
	if silent && !lost(n) && c.Client().Kinds().Features().On("NodeControllerLeaseCircuitBreaker") {
		var err error
		if silent, again, err = confirm(ctx, c, n, lease); err != nil {
			return 0, err
		}
	}
	next := plan(n, silent, c.Now()) // decide
	if w.meet(n) {
		c.Event(kinds.Nodes, n, corev1.EventTypeNormal, "RegisteredNode", "Node %s event: Registered Node %s in Controller", n.Name, n.Name)
	}
	if !resource.Same(n.Status.Conditions, next.Status.Conditions) {
		return again, report(ctx, c, n, next) // everything else follows from what is reported: its change wakes us
	}
	again = soonest(again, w.brake(c, n, next, time.Now())) // not all at once
	return again, act(ctx, c, n, next)                      // act
}

// report writes that the node is lost.
func report(ctx context.Context, c *loop.Ctx, n, next *corev1.Node) error {
	if err := c.UpdateStatus(ctx, kinds.Nodes, next); err != nil {
		return err
	}
	if was := find(n, corev1.NodeReady); was != nil && was.Status == corev1.ConditionTrue {
		c.Event(kinds.Nodes, n, corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: NodeNotReady", n.Name)
	}
	return nil
}

var evictions = &loop.Figure{Name: "node_collector_evictions_total", Help: "Nodes that got a taint that costs their pods.",
	Labels: []string{"zone"}}

// act writes taints and labels, and the pods' readiness.
func act(ctx context.Context, c *loop.Ctx, n, next *corev1.Node) error {
	var errs []error
	if !resource.Same(n.Spec, next.Spec) || !resource.Same(n.Labels, next.Labels) {
		err := c.Update(ctx, kinds.Nodes, next)
		if err == nil && slices.ContainsFunc(next.Spec.Taints, expels) && !slices.ContainsFunc(n.Spec.Taints, expels) {
			c.Count(evictions, topology.GetZoneKey(n))
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, unreadyPods(ctx, c, n))...)
}

// unreadyPods marks the pods of a node that fell silent: nobody should send them anything.
func unreadyPods(ctx context.Context, c *loop.Ctx, n *corev1.Node) error {
	var list []*corev1.Pod
	for _, p := range resource.Where(c, kinds.Pods, "spec.nodeName", n.Name) {
		if misleads(p, n) {
			list = append(list, p)
		}
	}
	_, err := loop.All(len(list), func(i int) error {
		next := unready(list[i], c.Now())
		if err := c.UpdateStatus(ctx, kinds.Pods, next); err != nil {
			return err
		}
		c.Event(kinds.Pods, list[i], corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
		return nil
	})
	return err
}

// misleads says whether a pod claims to be ready although its node fell silent. A node that talks knows better, also one that says
// that it is not ready.
func misleads(p *corev1.Pod, n *corev1.Node) bool {
	if ready := find(n, corev1.NodeReady); ready == nil || ready.Status != corev1.ConditionUnknown || ready.Reason != silentReason {
		return false
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func unready(p *corev1.Pod, now time.Time) *corev1.Pod {
	next := resource.Clone(p)
	for i := range next.Status.Conditions {
		if c := &next.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(now) // why it is ready is no reason, but upstream leaves it too
		}
	}
	return next
}

// heard notes the sign of life that a lease is. It wakes a node only when that is news.
func (w *watch) heard(c client.Change, read resource.Reader, wake func(ns, name string)) {
	if c.New == nil || c.New.GetNamespace() != corev1.NamespaceNodeLease {
		return
	}
	name := c.New.GetName()
	if name == SimulatedLease {
		for obj := range read.Each(kinds.Nodes, "") {
			if n := obj.(*corev1.Node); n.Annotations[Fake] == "fake" && lost(n) {
				wake("", n.Name)
			}
		}
		return
	}
	n := resource.Get(read, kinds.Nodes, "", name)
	if n == nil {
		return
	}
	w.note(n, leaseOf(read, n), time.Now())
	if lost(n) {
		wake("", name)
	}
}

func lost(n *corev1.Node) bool {
	ready := find(n, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionUnknown
}

func soonest(a, b time.Duration) time.Duration {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}
