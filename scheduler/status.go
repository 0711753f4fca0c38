package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A statusWriter writes what the scheduler says of pods into their status, one write a pod at a time, after all bindings.
type statusWriter struct {
	r     *runner
	queue []statusWrite
}

// A statusWrite is a write to a pod's status that waits for its turn.
type statusWrite struct {
	task *task
	text string
	do   job
}

// set queues the write of the pod's PodScheduled condition and nomination, if they are not so already. Without a reason only
// the nomination is written.
func (w *statusWriter) set(t *task, reason, text, nominated string) {
	p := t.pod
	saying := sayingOf(reason, text, nominated)
	if t.lastStatus == saying {
		return
	}
	t.lastStatus, t.saidAt = saying, 0
	var change statusChange
	if c := find(p, corev1.PodScheduled); reason != "" && (c == nil || c.Status != corev1.ConditionFalse || c.Reason != reason ||
		c.Message != text) {
		change.condition = condition(p, corev1.PodScheduled, corev1.ConditionFalse, reason, text, w.r.env.Now())
	}
	if nominated != p.Status.NominatedNodeName {
		change.nominated = &nominated
	}
	if change == (statusChange{}) {
		t.saidAt = resource.Revision(p)
		return
	}
	t.nominating = change.nominated != nil
	w.queue = append(w.queue, statusWrite{t, saying, func(ctx context.Context) func() {
		rev, err := w.write(because(ctx, p), p, change)
		return func() { w.written(t, saying, rev, err) }
	}})
}

func sayingOf(reason, text, nominated string) string { return reason + "\n" + text + "\n" + nominated }

// says returns the pod's PodScheduled condition and nomination, in the form that set remembers; "": there is none.
func says(p *corev1.Pod) string {
	c := find(p, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse {
		return ""
	}
	return sayingOf(c.Reason, c.Message, p.Status.NominatedNodeName)
}

// A statusChange is the new status of a pod; nil: unchanged.
type statusChange struct {
	condition *corev1.PodCondition
	nominated *string
	claim     *corev1.PodExtendedResourceClaimStatus
}

// apply returns the pod with its status changed; it shares with p what is as it was.
func (c statusChange) apply(old *corev1.Pod) *corev1.Pod {
	next := *old
	p := &next
	p.Status.Conditions = slices.Clone(old.Status.Conditions)
	if c.nominated != nil {
		p.Status.NominatedNodeName = *c.nominated
	}
	if c.claim != nil {
		p.Status.ExtendedResourceClaimStatus = c.claim
	}
	if c.condition == nil {
		return p
	}
	if old := find(p, c.condition.Type); old != nil {
		*old = *c.condition
	} else {
		p.Status.Conditions = append(p.Status.Conditions, *c.condition)
	}
	return p
}

// patch is the change as a strategic merge patch of exactly this pod.
func (c statusChange) patch(p *corev1.Pod) ([]byte, error) {
	status := map[string]any{}
	if c.condition != nil {
		status["conditions"] = []any{c.condition}
	}
	if c.nominated != nil {
		status["nominatedNodeName"] = *c.nominated
		if *c.nominated == "" {
			status["nominatedNodeName"] = nil
		}
	}
	if c.claim != nil {
		status["extendedResourceClaimStatus"] = c.claim
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
}

// written ends the writing of a status, which is the pod's from a revision on.
func (w *statusWriter) written(t *task, saying string, rev int64, err error) {
	t.statusInFlight, t.nominating = false, t.nominating && t.nextStatus != nil
	if t.afterStatus != nil && !t.gone {
		t.afterStatus()
	}
	if t.nextStatus != nil {
		w.queue = append(w.queue, *t.nextStatus)
	}
	t.afterStatus, t.nextStatus = nil, nil
	if err == nil && t.lastStatus == saying {
		t.saidAt = rev
		t.hear()
	}
	if err == nil || apierrors.IsNotFound(err) || errors.Is(err, context.Canceled) {
		return
	}
	t.lastStatus, t.saidAt = "", 0
	w.r.log.Error("write status", "kind", "Pod", "object", keyOf(t.pod), "err", err)
	w.r.q.retry(t, w.r.env.Now()) // look again, to say it again
}

// hear forgets what was said if the pod, as it is known now, has lost it since: somebody took it away, and the next look says it again.
// The news may be of both at once, or come before the end of the write does.
func (t *task) hear() {
	if t.saidAt > 0 && resource.Revision(t.pod) >= t.saidAt && says(t.pod) != t.lastStatus {
		t.lastStatus, t.saidAt = "", 0
	}
}

// write changes the status of exactly this pod: as it is known here, which costs the server a third of what a patch does, or by a patch
// when it has changed since. It returns the revision from which on the pod has it.
func (w *statusWriter) write(ctx context.Context, p *corev1.Pod, change statusChange) (rev int64, err error) {
	now, err := w.r.env.Client.Update(ctx, kinds.Pods, change.apply(p), "status")
	if apierrors.IsConflict(err) {
		data, wrong := change.patch(p)
		if wrong != nil {
			return 0, wrong
		}
		now, err = w.r.env.Client.Patch(ctx, kinds.Pods, p.Namespace, p.Name,
			client.Patch{Type: types.StrategicMergePatchType, Data: data, Sub: "status"})
	}
	if err != nil {
		return 0, err
	}
	return resource.Revision(now), nil
}

func find(p *corev1.Pod, typ corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == typ {
			return c
		}
	}
	return nil
}

// condition makes a pod's condition; the time of its transition moves only with its status.
func condition(p *corev1.Pod, typ corev1.PodConditionType, status corev1.ConditionStatus, reason, text string,
	now time.Time) *corev1.PodCondition {
	at := metav1.NewTime(now)
	if old := find(p, typ); old != nil && old.Status == status {
		at = old.LastTransitionTime
	}
	return &corev1.PodCondition{Type: typ, Status: status, Reason: reason, Message: text, LastTransitionTime: at,
		ObservedGeneration: p.Generation}
}
