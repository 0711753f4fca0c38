// Package podgc removes pods that nobody else will: those of nodes that are gone or declared out of service, and
// the oldest of too many that have ended.
//
//	reads   Pod, Node
//	writes  Pod: status, delete at once
//	rule    no pod outlives its node by more than the quarantine; at most 12,500 pods that have ended are kept
package podgc

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const (
	mostEnded  = 12500
	quarantine = 40 * time.Second // a node that is gone may come back under its name
	rest       = 5 * time.Second
)

// Controller returns the loop. Its keys are Nodes, those that are gone too, and one without a name for what concerns
// no node: wake on Nodes, on Pods without a node, and on Pods that end.
func Controller() *loop.Controller[*corev1.Node] {
	m := &missing{since: map[string]time.Time{}}
	return &loop.Controller[*corev1.Node]{
		Name:   "pod-garbage-collector",
		For:    kinds.Nodes,
		Wake:   []loop.Wake{{Kind: kinds.Pods, Keys: concerns}},
		Writes: []resource.Kind{kinds.Pods},
		Rest:   rest,
		Reconcile: func(ctx context.Context, c *loop.Ctx, n *corev1.Node) (time.Duration, error) {
			m.swap(n.Name, time.Time{}) // it came back within the quarantine: its next end is another one
			return outOfService(ctx, c, n)
		},
		Gone: m.gone,
		Find: func(read resource.Reader, wake func(ns, name string)) {
			wake("", "")
			for _, p := range resource.List(read, kinds.Pods, "") {
				if p.Spec.NodeName != "" && resource.Get(read, kinds.Nodes, "", p.Spec.NodeName) == nil {
					wake("", p.Spec.NodeName)
				}
			}
		},
	}
}

func concerns(c client.Change, read resource.Reader, wake func(ns, name string)) {
	p, ok := c.New.(*corev1.Pod)
	switch {
	case !ok:
	case p.Spec.NodeName != "" && resource.Get(read, kinds.Nodes, "", p.Spec.NodeName) == nil:
		wake("", p.Spec.NodeName)
	case p.Spec.NodeName == "" && p.DeletionTimestamp != nil, core.Terminal(p):
		wake("", "")
	}
}

// missing remembers since when a node with pods has been missed.
type missing struct {
	mu    sync.Mutex
	since map[string]time.Time
}

func (m *missing) gone(ctx context.Context, c *loop.Ctx, key loop.Key) (time.Duration, error) {
	if key.Name == "" {
		return 0, tidy(ctx, c)
	}
	list := resource.Where(c, kinds.Pods, "spec.nodeName", key.Name)
	if len(list) == 0 {
		m.swap(key.Name, time.Time{})
		return 0, nil
	}
	since := m.swap(key.Name, c.Now())
	if left := since.Add(quarantine).Sub(c.Now()); left > 0 {
		return left, nil
	}
	if _, err := c.Client().Get(ctx, kinds.Nodes, "", key.Name); !apierrors.IsNotFound(err) {
		if err == nil {
			m.swap(key.Name, time.Time{}) // it came back: its next end is another one
		}
		return 0, err
	}
	_, err := loop.All(len(list), func(i int) error {
		return remove(ctx, c, list[i], "DeletionByPodGC", "PodGC: node no longer exists")
	})
	if err == nil {
		m.swap(key.Name, time.Time{}) // pods that name it later have their own time
	}
	return 0, err
}

// swap returns since when the node is missed: at, unless it was missed before. A zero time forgets it.
func (m *missing) swap(node string, at time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.IsZero() {
		delete(m.since, node)
		return at
	}
	if was, ok := m.since[node]; ok {
		return was
	}
	m.since[node] = at
	return at
}

// outOfService removes the pods that can't end, on a node that somebody declared dead.
func outOfService(ctx context.Context, c *loop.Ctx, n *corev1.Node) (time.Duration, error) {
	if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) || isReady(n) {
		return 0, nil
	}
	list := slices.DeleteFunc(resource.Where(c, kinds.Pods, "spec.nodeName", n.Name),
		func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil })
	_, err := loop.All(len(list), func(i int) error { return remove(ctx, c, list[i], "", "") })
	return rest, err // more pods may be deleted meanwhile
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// tidy removes pods that were deleted before they had a node, and the oldest of too many that ended.
func tidy(ctx context.Context, c *loop.Ctx) error {
	todo := plan(resource.List(c, kinds.Pods, ""), mostEnded)
	_, err := loop.All(len(todo), func(i int) error { return remove(ctx, c, todo[i], "", "") })
	return err
}

// plan is pure: it picks what tidy removes.
func plan(all []*corev1.Pod, most int) (todo []*corev1.Pod) {
	var over []*corev1.Pod
	for _, p := range all {
		switch {
		case p.Spec.NodeName == "" && p.DeletionTimestamp != nil:
			todo = append(todo, p)
		case core.Terminal(p):
			over = append(over, p)
		}
	}
	if len(over) <= most {
		return todo
	}
	slices.SortFunc(over, func(a, b *corev1.Pod) int {
		return cmp.Or(evicted(a)-evicted(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return append(todo, over[:len(over)-most]...)
}

// evicted orders the pods that their node put out first: they tell the least.
func evicted(p *corev1.Pod) int {
	if p.Status.Phase == corev1.PodFailed && p.Status.Reason == "Evicted" {
		return -1
	}
	return 0
}

// remove deletes a pod without waiting for anybody. One that has not ended is first marked as failed, so that its
// owner counts it.
func remove(ctx context.Context, c *loop.Ctx, p *corev1.Pod, reason, message string) error {
	if !core.Terminal(p) {
		status := map[string]any{"phase": corev1.PodFailed, "observedGeneration": p.Generation}
		if next := resource.Clone(p); reason != "" && pods.SetDisruption(next, reason, message, c.Now()) {
			status["conditions"] = slices.DeleteFunc(next.Status.Conditions,
				func(c corev1.PodCondition) bool { return c.Type != corev1.DisruptionTarget })
		}
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
		if err != nil {
			return err
		}
		// The account may patch, and not update.
		err = c.Patch(ctx, kinds.Pods, p, client.Patch{Type: types.StrategicMergePatchType, Data: data, Sub: "status"})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return c.DeleteWith(ctx, kinds.Pods, p, &metav1.DeleteOptions{GracePeriodSeconds: new(int64),
		Preconditions: &metav1.Preconditions{UID: &p.UID}})
}
