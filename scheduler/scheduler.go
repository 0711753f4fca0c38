// Package scheduler gives every pending pod a node.
//
//	reads   Pods, Nodes
//	writes  Pod: binding
//	rule    every pod of ours that fits somewhere is bound to a node that suits it best
package scheduler

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Config tunes a Scheduler; the zero value is upstream's default profile.
type Config struct {
	Name string // the schedulerName whose pods are ours; "": default-scheduler
}

// A Scheduler is the loop that assigns pods to nodes.
type Scheduler struct{ cfg Config }

// New returns a scheduler. It does nothing before Run.
func New(cfg Config) *Scheduler {
	if cfg.Name == "" {
		cfg.Name = corev1.DefaultSchedulerName
	}
	return &Scheduler{cfg: cfg}
}

// LoopName implements loop.Loop.
func (s *Scheduler) LoopName() string { return "scheduler" }

// Run implements loop.Loop.
func (s *Scheduler) Run(ctx context.Context, env loop.Env) error {
	if env.Log == nil {
		env.Log = slog.Default()
	}
	feed := env.Client.Feed(kinds.Pods, kinds.Nodes)
	for {
		batch, err := feed.Next(ctx)
		if err != nil {
			return nil // the context ended
		}
		s.pass(ctx, env, batch.Read)
	}
}

// pass binds every pending pod to the first node that takes it.
func (s *Scheduler) pass(ctx context.Context, env loop.Env, read resource.Reader) {
	var pending []*corev1.Pod
	used := map[string]corev1.ResourceList{}
	for _, p := range resource.List(read, kinds.Pods, "") {
		switch {
		case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		case p.Spec.NodeName != "":
			charge(used, p.Spec.NodeName, p)
		case p.Spec.SchedulerName == s.cfg.Name && p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0:
			pending = append(pending, p)
		}
	}
	nodes := resource.List(read, kinds.Nodes, "")
	for _, p := range pending {
		for _, n := range nodes {
			if !takes(n, p, used[n.Name]) {
				continue
			}
			b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
				Target: corev1.ObjectReference{Kind: "Node", Name: n.Name}}
			if _, err := env.Client.Call(ctx, kinds.Pods, p.Namespace, p.Name, "binding", b); err != nil {
				if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					env.Log.Error("bind", "loop", "scheduler", "object", p.Namespace+"/"+p.Name, "node", n.Name, "err", err)
				}
				break
			}
			charge(used, n.Name, p)
			env.Events.Event(kinds.Pods, p, corev1.EventTypeNormal, "Scheduled", "Successfully assigned %s/%s to %s", p.Namespace, p.Name, n.Name)
			break
		}
	}
}

func requests(p *corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, c := range p.Spec.Containers {
		for name, q := range c.Resources.Requests {
			v := sum[name]
			v.Add(q)
			sum[name] = v
		}
	}
	return sum
}

func charge(used map[string]corev1.ResourceList, node string, p *corev1.Pod) {
	if used[node] == nil {
		used[node] = corev1.ResourceList{}
	}
	for name, q := range requests(p) {
		v := used[node][name]
		v.Add(q)
		used[node][name] = v
	}
}

func takes(n *corev1.Node, p *corev1.Pod, used corev1.ResourceList) bool {
	if n.Spec.Unschedulable {
		return false
	}
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated(p, t) {
			return false
		}
	}
	for k, v := range p.Spec.NodeSelector {
		if n.Labels[k] != v {
			return false
		}
	}
	for name, q := range requests(p) {
		free := n.Status.Allocatable[name].DeepCopy()
		free.Sub(used[name])
		if free.Cmp(q) < 0 {
			return false
		}
	}
	return true
}

func tolerated(p *corev1.Pod, t *corev1.Taint) bool {
	for _, tol := range p.Spec.Tolerations {
		if (tol.Effect == "" || tol.Effect == t.Effect) && (tol.Key == "" || tol.Key == t.Key) &&
			(tol.Operator == corev1.TolerationOpExists || tol.Value == t.Value) {
			return true
		}
	}
	return false
}
