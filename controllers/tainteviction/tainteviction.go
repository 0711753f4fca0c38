// Package tainteviction removes pods from nodes whose NoExecute taints they do not tolerate, or no longer.
//
//	reads   Node, the Pods on it
//	writes  Pod: the condition DisruptionTarget, delete
//	rule    a pod stays on a node as long as it tolerates every NoExecute taint; one that goes away in time changes nothing
package tainteviction

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller returns the loop: wake on a Node's taints and on the Pods of a tainted node.
func Controller() *loop.Controller[*corev1.Node] {
	m := &memory{since: map[string]map[types.UID]time.Time{}}
	return &loop.Controller[*corev1.Node]{
		Name:      "taint-eviction",
		For:       kinds.Nodes,
		Wake:      []loop.Wake{{Kind: kinds.Pods, Keys: onTainted}},
		Writes:    []resource.Kind{kinds.Pods},
		Workers:   8,
		Reconcile: m.reconcile,
		Gone: func(_ context.Context, _ *loop.Ctx, key loop.Key) (time.Duration, error) {
			m.swap(key.Name, nil)
			return 0, nil
		},
	}
}

// memory holds since when each pod has waited on a tainted node. It is lost with the process, and then waits
// begin anew, as the taints' own times allow.
type memory struct {
	mu    sync.Mutex
	since map[string]map[types.UID]time.Time // by node
}

// swap stores who waits on a node now and returns who did.
func (m *memory) swap(node string, next map[types.UID]time.Time) map[types.UID]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.since[node]
	if len(next) == 0 {
		delete(m.since, node)
	} else {
		m.since[node] = next
	}
	return was
}

func (m *memory) get(node string) map[types.UID]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.since[node]
}

func (m *memory) reconcile(ctx context.Context, c *loop.Ctx, n *corev1.Node) (again time.Duration, err error) {
	taints := expelling(n)
	was := m.get(n.Name)
	if len(taints) == 0 && len(was) == 0 {
		return 0, nil
	}
	todo := plan(taints, resource.Where(c, kinds.Pods, "spec.nodeName", n.Name), was, c.Now())
	m.swap(n.Name, todo.since)
	for _, p := range todo.spared {
		c.Event(kinds.Pods, p, corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod %s/%s", p.Namespace, p.Name)
	}
	_, err = loop.All(len(todo.remove), func(i int) error { return evict(ctx, c, todo.remove[i]) })
	return todo.again, err
}

// evict marks the pod as disrupted, so that what made it knows why it ended, and deletes it.
func evict(ctx context.Context, c *loop.Ctx, p *corev1.Pod) error {
	c.Event(kinds.Pods, p, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s/%s", p.Namespace, p.Name)
	err := pods.Disrupt(ctx, c, p, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	return c.Delete(ctx, kinds.Pods, p)
}

// onTainted wakes the node of a pod if the node may expel it.
func onTainted(c client.Change, read resource.Reader, wake func(ns, name string)) {
	p := c.Object().(*corev1.Pod)
	if p.Spec.NodeName == "" {
		return
	}
	if n := resource.Get(read, kinds.Nodes, "", p.Spec.NodeName); n != nil && len(expelling(n)) > 0 {
		wake("", n.Name)
	}
}

func expelling(n *corev1.Node) (list []corev1.Taint) {
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			list = append(list, t)
		}
	}
	return list
}
