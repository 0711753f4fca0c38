// Package ttlafterfinished removes jobs some time after they have ended.
//
//	reads   Job
//	writes  Job: delete
//	rule    a job with spec.ttlSecondsAfterFinished goes that long after its end
package ttlafterfinished

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a Job that asks for it.
var Controller = &loop.Controller[*batchv1.Job]{
	Name:   "ttl-after-finished",
	For:    kinds.Jobs,
	Writes: []resource.Kind{kinds.Jobs},
	Skip:   func(j *batchv1.Job) bool { return j.Spec.TTLSecondsAfterFinished == nil || endedAt(j).IsZero() },
	Reconcile: func(ctx context.Context, c *loop.Ctx, j *batchv1.Job) (time.Duration, error) {
		if j.DeletionTimestamp != nil {
			return 0, nil
		}
		if left := left(j, c.Now()); left > 0 {
			return left, nil
		}
		foreground := metav1.DeletePropagationForeground
		return 0, c.DeleteWith(ctx, kinds.Jobs, j, &metav1.DeleteOptions{PropagationPolicy: &foreground,
			// Somebody may have given it more time since: then this fails, and its change wakes it again.
			Preconditions: &metav1.Preconditions{UID: &j.UID, ResourceVersion: &j.ResourceVersion}})
	},
}

// left is the time for which the job may stay.
func left(j *batchv1.Job, now time.Time) time.Duration {
	return endedAt(j).Add(time.Duration(*j.Spec.TTLSecondsAfterFinished) * time.Second).Sub(now)
}

// endedAt is the time at which the job ended; zero while it runs.
func endedAt(j *batchv1.Job) time.Time {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
