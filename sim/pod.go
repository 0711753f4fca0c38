package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// podLoop lives the pods' lives.
//
//	reads   Pod, Node
//	writes  Pod: status, delete
//	rule    a pod on a simulated node that is up has the status that its fate gives it by now, and goes when it is deleted
func podLoop(ips *addresses) loop.Loop {
	return &loop.Controller[*corev1.Pod]{
		Name:    "sim-pod",
		For:     kinds.Pods,
		Wake:    []loop.Wake{loop.Each(kinds.Nodes, podsOf)},
		Writes:  []resource.Kind{kinds.Pods},
		Skip:    settled,
		Workers: 16,
		Reconcile: func(ctx context.Context, c *loop.Ctx, p *corev1.Pod) (time.Duration, error) {
			n := nodeOf(c, p)
			switch {
			case !alive(n):
				return 0, nil
			case p.DeletionTimestamp != nil:
				return stop(ctx, c, p, fateOf(p, n), aloud(n, ips))
			case !up(n): // it has no room to speak of yet, or what it says of its pods will be believed when it is up
				return 0, nil
			}
			st, again, said := live(p, fateOf(p, n), metav1.NewTime(c.Now()),
				place{read: c, node: n, ips: func() []string { return ips.take(c, p) }, hosts: ips.hosts(), mute: !aloud(n, ips)})
			if !resource.Same(st, &p.Status) {
				next := *p // what is shared is not changed, and the client clones
				next.Status = *st
				if err := c.UpdateStatus(ctx, kinds.Pods, &next); err != nil {
					return again, err
				}
			}
			speak(c, p, said)
			return again, nil
		},
		Gone: func(_ context.Context, _ *loop.Ctx, key loop.Key) (time.Duration, error) {
			ips.free(key.Namespace + "/" + key.Name)
			return 0, nil
		},
	}
}

// eventPods is up to how many simulated pods their nodes tell events: with more there are none, as each costs a write.
const eventPods = 100

func aloud(n *corev1.Node, ips *addresses) bool {
	return n.Annotations[Agent] != "" && ips.count() <= eventPods
}

// speak tells events in the name of the pod's node.
func speak(c *loop.Ctx, p *corev1.Pod, said []saying) {
	if len(said) == 0 {
		return
	}
	to := c.Recorder().For("kubelet", p.Spec.NodeName)
	for _, s := range said {
		to.Ref(corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name, UID: p.UID,
			ResourceVersion: p.ResourceVersion,
			FieldPath:       field(p, s.container)}, s.typ, s.reason, "%s", s.text)
	}
}

func nodeOf(read resource.Reader, p *corev1.Pod) *corev1.Node {
	if p.Spec.NodeName == "" {
		return nil
	}
	return resource.Get(read, kinds.Nodes, "", p.Spec.NodeName)
}

// stop ends a pod that is deleted: its containers take their time, then it goes.
func stop(ctx context.Context, c *loop.Ctx, p *corev1.Pod, f fate, loud bool) (time.Duration, error) {
	if loud && (f.stop == 0 || c.Now().Sub(asked(p)) < time.Second) {
		speak(c, p, killing(p))
	}
	if p.DeletionGracePeriodSeconds != nil && p.Status.Phase == corev1.PodRunning {
		grace := resource.Seconds(*p.DeletionGracePeriodSeconds)
		if left := p.DeletionTimestamp.Add(min(f.stop, grace) - grace).Sub(c.Now()); left > 0 && f.stop > 0 {
			return min(left, grace), nil
		}
	}
	if len(p.Finalizers) > 0 && !core.Terminal(p) { // somebody wants to see how it ended
		q := resource.Clone(p)
		q.Status = *killed(p, metav1.NewTime(c.Now()))
		if err := c.UpdateStatus(ctx, kinds.Pods, q); err != nil {
			return 0, err
		}
	}
	now := int64(0)
	return 0, c.DeleteWith(ctx, kinds.Pods, p, &metav1.DeleteOptions{GracePeriodSeconds: &now,
		Preconditions: &metav1.Preconditions{UID: &p.UID}})
}

// asked returns the time at which a pod was asked to stop.
func asked(p *corev1.Pod) time.Time {
	if g := p.DeletionGracePeriodSeconds; g != nil {
		return p.DeletionTimestamp.Add(-resource.Seconds(*g))
	}
	return p.DeletionTimestamp.Time
}

// killing returns a node's events for the containers that it stops.
func killing(p *corev1.Pod) (said []saying) {
	for i := range p.Status.ContainerStatuses {
		if s := &p.Status.ContainerStatuses[i]; s.State.Running != nil {
			said = append(said, saying{corev1.EventTypeNormal, s.Name, "Killing", "Stopping container " + s.Name})
		}
	}
	return said
}

// killed is the status of a pod that was stopped before its end.
func killed(p *corev1.Pod, now metav1.Time) *corev1.PodStatus {
	l := &life{pod: p, now: now, st: p.Status.DeepCopy()}
	l.kill()
	return l.st
}

// settled tells pods that nothing will happen to, so that they never enter the queue.
func settled(p *corev1.Pod) bool {
	switch {
	case p.Spec.NodeName == "":
		return true
	case p.DeletionTimestamp != nil:
		return false
	case core.Terminal(p):
		return true
	}
	return p.Status.Phase == corev1.PodRunning && ready(p) && len(p.Spec.ReadinessGates) == 0 &&
		p.Spec.ActiveDeadlineSeconds == nil && !fated(p)
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// fated says whether something may happen to a pod that runs well.
func fated(p *corev1.Pod) bool {
	for key := range p.Annotations {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	ref := metav1.GetControllerOfNoCopy(p)
	return ref != nil && ref.Kind == "Job"
}

// podsOf wakes the pods of a node: they may have been bound before it was known to be simulated, or it was lost.
func podsOf(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	if !alive(obj.(*corev1.Node)) {
		return
	}
	for _, p := range resource.Where(read, kinds.Pods, "spec.nodeName", obj.GetName()) {
		if !settled(p) {
			wake(p.Namespace, p.Name)
		}
	}
}
