// Package pods holds what the loops that own pods share: which pods are theirs, how a pod is made from a
// template, and which pods cost least to lose.
package pods

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/controllers/internal/ownership"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Claim returns the pods that owner controls; a pod adopted just now counts.
func Claim(ctx context.Context, c *loop.Ctx, o ownership.Owner[*corev1.Pod]) ([]*corev1.Pod, error) {
	mine, adopted, err := ownership.Claim(ctx, c, kinds.Pods, o)
	return append(mine, adopted...), err
}

// FromTemplate makes the pod that owner's template describes.
func FromTemplate(k resource.Kind, owner resource.Object, t *corev1.PodTemplateSpec) *corev1.Pod {
	t = t.DeepCopy()
	prefix := owner.GetName() + "-"
	if len(resource.CheckName(k, prefix, true)) != 0 {
		prefix = owner.GetName()
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: owner.GetNamespace(), GenerateName: prefix, Labels: t.Labels,
			Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, k.Info().GVK)}},
		Spec: t.Spec,
	}
}

// Create makes the pod and tells so in an event of the owner.
func Create(ctx context.Context, c *loop.Ctx, k resource.Kind, owner resource.Object, pod *corev1.Pod) error {
	made, err := c.Create(ctx, kinds.Pods, pod)
	switch {
	case err == nil:
		c.Event(k, owner, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %s", made.GetName())
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // everything here goes away; the next wake is the owner's deletion
	default:
		c.Event(k, owner, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
	}
	return err
}

// Delete removes the pod and tells so in an event of the owner.
func Delete(ctx context.Context, c *loop.Ctx, k resource.Kind, owner resource.Object, p *corev1.Pod) error {
	if err := c.Delete(ctx, kinds.Pods, p); err != nil {
		c.Event(k, owner, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		return err
	}
	c.Event(k, owner, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %s", p.Name)
	return nil
}

// Ready says whether the pod's Ready condition is true.
func Ready(p *corev1.Pod) bool { return !ReadySince(p).IsZero() }

// ReadySince is the time at which the pod became ready; zero when it is not.
func ReadySince(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			if c.LastTransitionTime.IsZero() {
				return time.Unix(1, 0)
			}
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// UntilAvailable returns the time until a ready pod has been ready for minReady seconds: 0 when it has, -1 when it
// is not ready.
func UntilAvailable(p *corev1.Pod, minReady int32, now time.Time) time.Duration {
	since := ReadySince(p)
	if since.IsZero() {
		return -1
	}
	return max(0, since.Add(time.Duration(minReady)*time.Second).Sub(now))
}

// CheapestFirst sorts pods by how little is lost when they go: unassigned before assigned, pending and
// unknown before running, unready before ready, lower deletion cost, on nodes crowded by the active ones of company,
// recently ready, many restarts, young.
func CheapestFirst(list, company []*corev1.Pod, now time.Time) {
	crowd := map[string]int{}
	for _, p := range company {
		if Active(p) {
			crowd[p.Spec.NodeName]++
		}
	}
	slices.SortStableFunc(list, func(a, b *corev1.Pod) int {
		return cmp.Or(
			less(a.Spec.NodeName == "", b.Spec.NodeName == ""),
			cmp.Compare(phaseRank(a), phaseRank(b)),
			less(!Ready(a), !Ready(b)),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(crowd[b.Spec.NodeName], crowd[a.Spec.NodeName]),
			cmp.Compare(ageStep(ReadySince(a), now), ageStep(ReadySince(b), now)),
			cmp.Compare(restarts(b), restarts(a)),
			cmp.Compare(ageStep(a.CreationTimestamp.Time, now), ageStep(b.CreationTimestamp.Time, now)),
			cmp.Compare(a.UID, b.UID),
		)
	})
}

// Active tells the pods that count towards a wish: neither finished nor on their way out.
func Active(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && !core.Terminal(p)
}

// less orders true before false.
func less(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func phaseRank(p *corev1.Pod) int {
	switch p.Status.Phase {
	case corev1.PodPending, "":
		return 0
	case corev1.PodUnknown:
		return 1
	}
	return 2
}

// ageStep puts times in steps of doubling age, so that pods of about the same age count as equal and the
// choice between them is spread (KEP-2185).
func ageStep(t, now time.Time) int {
	if t.IsZero() {
		return 0
	}
	step := 0
	for age := now.Sub(t); age > time.Second; age /= 2 {
		step++
	}
	return step
}

func deletionCost(p *corev1.Pod) int {
	n, err := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

// restarts is the highest count among the pod's containers, ended sidecars included.
func restarts(p *corev1.Pod) (n int32) {
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for _, s := range list {
			n = max(n, s.RestartCount)
		}
	}
	return n
}

// DropFinalizer takes a finalizer off exactly the pod that was read.
func DropFinalizer(ctx context.Context, c *loop.Ctx, p *corev1.Pod, name string) error {
	rest := slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == name })
	return c.Patch(ctx, kinds.Pods, p, ownership.Meta(p, map[string]any{"finalizers": rest}))
}
