package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fill writes the counts into the status.
func (w *world) fill(st *batchv1.JobStatus, active, removed int) {
	ready, terminating := int32(min(w.ready, active)), int32(w.terminating+removed)
	st.Active, st.Ready, st.Terminating = int32(active), &ready, &terminating
	st.Failed, st.UncountedTerminatedPods = int32(w.countedFailed), &w.uncounted
	st.Succeeded = int32(w.counted)
	if w.indexed {
		st.Succeeded, st.CompletedIndexes = int32(w.succeeded), w.done.String()
		if w.job.Spec.BackoffLimitPerIndex != nil {
			text := w.hopeless.String()
			st.FailedIndexes = &text
		}
	}
}

// suspend keeps the condition Suspended, while it is open how the job ends, and the start time, which runs from the last
// resumption.
func (w *world) suspend(st *batchv1.JobStatus, decided bool) {
	now := metav1.NewTime(w.now)
	cur := find(st.Conditions, batchv1.JobSuspended)
	set := func(s corev1.ConditionStatus, reason, text string) {
		c := batchv1.JobCondition{Type: batchv1.JobSuspended, Status: s, Reason: reason, Message: text, LastProbeTime: now,
			LastTransitionTime: now}
		if cur == nil {
			st.Conditions = append(st.Conditions, c)
		} else if cur.Status != s {
			*cur = c
		}
	}
	switch {
	case decided || w.job.DeletionTimestamp != nil:
		if st.StartTime == nil && !suspended(w.job) {
			st.StartTime = &now
		}
	case suspended(w.job):
		if cur == nil || cur.Status != corev1.ConditionTrue {
			st.StartTime = nil // since 1.36: where pods may go can be changed until the job begins again
		}
		set(corev1.ConditionTrue, "JobSuspended", "Job suspended")
	case cur != nil && cur.Status == corev1.ConditionTrue:
		set(corev1.ConditionFalse, "JobResumed", "Job resumed")
		st.StartTime = &now
	case st.StartTime == nil:
		st.StartTime = &now
	}
}

// finish adds the condition that ends the job.
func finish(st *batchv1.JobStatus, goal *batchv1.JobCondition, now time.Time) {
	c := *goal
	c.LastProbeTime, c.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
	c.Type = batchv1.JobFailed
	if goal.Type == batchv1.JobSuccessCriteriaMet {
		c.Type = batchv1.JobComplete
		st.CompletionTime = &metav1.Time{Time: now}
	}
	st.Conditions = append(st.Conditions, c)
}

func ended(list []batchv1.JobCondition) bool {
	for _, t := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if c := find(list, t); c != nil && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func find(list []batchv1.JobCondition, t batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}
