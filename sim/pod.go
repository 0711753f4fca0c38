package sim

import (
	"context"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// podLoop lives the pods' lives.
//
//	reads   Pod, Node
//	writes  Pod: status, delete
//	rule    a pod on a simulated node runs at once, ends when its fate says so, and goes when it is deleted
func podLoop(ips *addresses) loop.Loop {
	return &loop.Controller[*corev1.Pod]{
		Name:    "sim-pod",
		For:     kinds.Pods,
		Wake:    []loop.Wake{loop.Each(kinds.Nodes, podsOf)},
		Writes:  []resource.Kind{kinds.Pods},
		Skip:    settled,
		Workers: 16,
		Reconcile: func(ctx context.Context, c *loop.Ctx, p *corev1.Pod) (time.Duration, error) {
			if !simulatedPod(c, p) {
				return 0, nil
			}
			if p.DeletionTimestamp != nil {
				// Somebody wants to see how it ended.
				if len(p.Finalizers) > 0 && p.Status.Phase == corev1.PodRunning {
					q := resource.Clone(p)
					q.Status = *ended(p, metav1.NewTime(c.Now()), 137)
					if err := c.UpdateStatus(ctx, kinds.Pods, q); err != nil {
						return 0, err
					}
				}
				now := int64(0)
				return 0, c.DeleteWith(ctx, kinds.Pods, p, &metav1.DeleteOptions{GracePeriodSeconds: &now,
					Preconditions: &metav1.Preconditions{UID: &p.UID}})
			}
			if cutOff(p) && !up(resource.Get(c, kinds.Nodes, "", p.Spec.NodeName)) {
				return 0, nil
			}
			st := next(p, metav1.NewTime(c.Now()), func() string { return ips.take(c, p) })
			if st == nil {
				return 0, nil
			}
			q := resource.Clone(p)
			q.Status = *st
			return 0, c.UpdateStatus(ctx, kinds.Pods, q)
		},
		Gone: func(_ context.Context, _ *loop.Ctx, key loop.Key) (time.Duration, error) {
			ips.free(key.Namespace + "/" + key.Name)
			return 0, nil
		},
	}
}

// settled tells pods that nothing will happen to, so that they never enter the queue.
func settled(p *corev1.Pod) bool {
	switch {
	case p.Spec.NodeName == "":
		return true
	case p.DeletionTimestamp != nil:
		return false
	case p.Status.Phase == corev1.PodRunning:
		_, ends := ending(p)
		return !ends && !cutOff(p)
	}
	return p.Status.Phase != corev1.PodPending && p.Status.Phase != ""
}

// podsOf wakes the pods of a node: they may have been bound before it was known to be simulated.
func podsOf(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	if !Simulated(obj.(*corev1.Node)) {
		return
	}
	for _, p := range resource.Where(read, kinds.Pods, "spec.nodeName", obj.GetName()) {
		if !settled(p) {
			wake(p.Namespace, p.Name)
		}
	}
}

// next is the status that a pod passes to from its present one; nil when it stays.
func next(p *corev1.Pod, now metav1.Time, ip func() string) *corev1.PodStatus {
	has := func(key string) bool { _, ok := p.Annotations[key]; return ok }
	switch {
	case (p.Status.Phase == corev1.PodPending || p.Status.Phase == "") && !has(Hold):
		return started(p, now, !has(Unready), ip())
	case p.Status.Phase == corev1.PodRunning:
		if code, ends := ending(p); ends {
			return ended(p, now, code)
		}
		if cutOff(p) {
			return started(p, now, true, ip())
		}
	}
	return nil
}

// cutOff says that the pod's node was thought lost, and the pod with it. A node agent that is heard again says that
// the pod is well.
func cutOff(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && c.Reason == "NodeNotReady"
	})
}

// ending is the exit code of a pod that does not run for ever.
func ending(p *corev1.Pod) (code int32, ends bool) {
	if v, ok := p.Annotations[Exit]; ok {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil {
			n = 1
		}
		return int32(n), true
	}
	_, keep := p.Annotations[Keep]
	ref := metav1.GetControllerOfNoCopy(p)
	return 0, ref != nil && ref.Kind == "Job" && !keep
}

func started(p *corev1.Pod, now metav1.Time, ready bool, ip string) *corev1.PodStatus {
	st := *p.Status.DeepCopy()
	st.Phase, st.StartTime = corev1.PodRunning, &now
	st.HostIP, st.HostIPs = "203.0.113.10", []corev1.HostIP{{IP: "203.0.113.10"}}
	st.PodIP, st.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	st.ContainerStatuses, st.InitContainerStatuses = nil, nil
	for _, c := range p.Spec.Containers {
		st.ContainerStatuses = append(st.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image,
			Ready: ready, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
	for _, c := range p.Spec.InitContainers {
		st.InitContainerStatuses = append(st.InitContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}})
	}
	yes, reason := corev1.ConditionTrue, ""
	if !ready {
		yes, reason = corev1.ConditionFalse, "ContainersNotReady"
	}
	st.Conditions = condition(st.Conditions, corev1.PodInitialized, corev1.ConditionTrue, "", now)
	st.Conditions = condition(st.Conditions, corev1.PodReady, yes, reason, now)
	st.Conditions = condition(st.Conditions, corev1.ContainersReady, yes, reason, now)
	return &st
}

func ended(p *corev1.Pod, now metav1.Time, code int32) *corev1.PodStatus {
	st := *p.Status.DeepCopy()
	reason, ready := "Error", "PodFailed"
	st.Phase = corev1.PodFailed
	if code == 0 {
		st.Phase, reason, ready = corev1.PodSucceeded, "Completed", "PodCompleted"
	}
	for i := range st.ContainerStatuses {
		s := &st.ContainerStatuses[i]
		began := now
		if s.State.Running != nil {
			began = s.State.Running.StartedAt
		}
		s.Ready, s.Started = false, new(false)
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason,
			StartedAt: began, FinishedAt: now}}
	}
	st.Conditions = condition(st.Conditions, corev1.PodReady, corev1.ConditionFalse, ready, now)
	st.Conditions = condition(st.Conditions, corev1.ContainersReady, corev1.ConditionFalse, ready, now)
	return &st
}

// condition returns the list with one condition set; its time moves only when its status does.
func condition(list []corev1.PodCondition, t corev1.PodConditionType, s corev1.ConditionStatus, reason string, now metav1.Time) []corev1.PodCondition {
	c := corev1.PodCondition{Type: t, Status: s, Reason: reason, LastTransitionTime: now}
	at := slices.IndexFunc(list, func(o corev1.PodCondition) bool { return o.Type == t })
	if at < 0 {
		return append(list, c)
	}
	if list[at].Status == s {
		c.LastTransitionTime = list[at].LastTransitionTime
	}
	list[at] = c
	return list
}
