package pods

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Disrupt writes the condition DisruptionTarget: the pod is about to be ended by the cluster, and not by its own fault.
func Disrupt(ctx context.Context, c *loop.Ctx, p *corev1.Pod, reason, message string) error {
	next := resource.Clone(p)
	if !SetDisruption(next, reason, message, c.Now()) {
		return nil
	}
	return c.UpdateStatus(ctx, kinds.Pods, next)
}

// SetDisruption sets the condition on a pod that the caller may change; it tells whether that was news.
func SetDisruption(p *corev1.Pod, reason, message string, now time.Time) bool {
	cond := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(now)}
	for i, was := range p.Status.Conditions {
		if was.Type != cond.Type {
			continue
		}
		if was.Status == cond.Status { // it is to go for another reason now
			cond.LastTransitionTime = was.LastTransitionTime
		}
		p.Status.Conditions[i] = cond
		return was != cond
	}
	p.Status.Conditions = append(p.Status.Conditions, cond)
	return true
}
