package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// report writes the pod's status as the runtime shows it now, if that is news. failed is an earlier error;
// it is passed on.
func (a *Agent) report(ctx context.Context, c *loop.Ctx, pod *corev1.Pod, failed error) error {
	seen, err := a.observe(ctx, pod.Namespace, pod.Name)
	if err != nil {
		return errors.Join(failed, err)
	}
	return a.tell(ctx, c, pod, a.world(c, pod, seen), failed)
}

// tell writes what was seen of the pod into its status.
func (a *Agent) tell(ctx context.Context, c *loop.Ctx, pod *corev1.Pod, w world, failed error) error {
	if pod.DeletionTimestamp == nil && !core.Terminal(pod) {
		a.watchProbes(w, w.seen.box(pod.UID)) // a container without probes is ready as soon as it runs
	}
	w.ends = pod.DeletionTimestamp != nil || nodeEnds(w).stop
	return errors.Join(failed, a.write(ctx, c, pod, a.status.podStatus(w)))
}

func (a *Agent) write(ctx context.Context, c *loop.Ctx, pod *corev1.Pod, st corev1.PodStatus) error {
	if equality.Semantic.DeepEqual(pod.Status, st) {
		return nil
	}
	if st.Phase == corev1.PodRunning && pod.Status.Phase != corev1.PodRunning {
		a.meter.Runs(pod.UID, pod.CreationTimestamp.Time, time.Now(), idle(&st))
	}
	next := resource.Clone(pod)
	next.Status = st
	err := c.UpdateStatus(ctx, kinds.Pods, next)
	if apierrors.IsNotFound(err) {
		return nil // it is gone; Gone cleans up
	}
	if err != nil {
		return fmt.Errorf("write the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	a.count("init_container", pod.Status.InitContainerStatuses, st.InitContainerStatuses)
	a.count("container", pod.Status.ContainerStatuses, st.ContainerStatuses)
	a.count("ephemeral_container", pod.Status.EphemeralContainerStatuses, st.EphemeralContainerStatuses)
	return nil
}

// count counts the containers that have ended since the status before.
func (a *Agent) count(kind string, before, now []corev1.ContainerStatus) {
	for _, s := range now {
		was := func(b corev1.ContainerStatus) bool { return b.Name == s.Name && b.State.Terminated != nil }
		if t := s.State.Terminated; t != nil && !slices.ContainsFunc(before, was) {
			a.meter.Ended(kind, t.ExitCode, t.Reason)
		}
	}
}

// idle sums the time in which the init containers of a pod ran.
func idle(st *corev1.PodStatus) (d time.Duration) {
	for i := range st.InitContainerStatuses {
		if t := st.InitContainerStatuses[i].State.Terminated; t != nil {
			d += t.FinishedAt.Sub(t.StartedAt.Time)
		}
	}
	return d
}

// reject ends a pod that this node does not take: it says so once, when the API has it.
//
// It tells of no containers, and of no conditions of theirs: there will be none.
func (a *Agent) reject(ctx context.Context, c *loop.Ctx, w world, r *Rejection) error {
	pod := resource.Clone(w.pod)
	now := seconds(w.now)
	st := corev1.PodStatus{Phase: corev1.PodFailed, Reason: r.Reason, Message: "Pod was rejected: " + r.Message, StartTime: &now,
		ObservedGeneration: pod.Generation, QOSClass: pod.Status.QOSClass, NominatedNodeName: pod.Status.NominatedNodeName,
		ResourceClaimStatuses: pod.Status.ResourceClaimStatuses, ExtendedResourceClaimStatus: pod.Status.ExtendedResourceClaimStatus}
	if left := foreignConditions(&pod.Status); len(left) > 0 {
		st.Conditions = left
	}
	if err := a.write(ctx, c, pod, st); err != nil {
		return err
	}
	a.event(w.pod, "", corev1.EventTypeWarning, r.Reason, "%s", r.Message)
	return nil
}

// fail ends a pod for a reason of the node's: its deadline, or that it can't run here.
func (a *Agent) fail(ctx context.Context, c *loop.Ctx, w world, t todo) error {
	w.pod, w.ends = resource.Clone(w.pod), true
	st := a.status.podStatus(w)
	st.Reason, st.Message = t.why, t.message
	st.Phase = corev1.PodPending
	terminal(w, &st, a.stop.since(w.pod.UID))
	for _, t := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setCondition(&st, t, false, "PodFailed", "", w.pod.Generation, w.now)
	}
	if t.disrupt != "" {
		setCondition(&st, corev1.DisruptionTarget, true, corev1.PodReasonTerminationByKubelet, t.disrupt, w.pod.Generation, w.now)
	}
	return a.write(ctx, c, w.pod, st)
}
