// Package cronjob starts jobs by the clock.
//
//	reads   CronJob, the Jobs it owns
//	writes  Job: create, delete; CronJob: status
//	rule    the last time of the schedule that has passed has its job, named after the minute, unless it is too late or the
//	        concurrency policy forbids it; of jobs that ended, the newest few are kept
package cronjob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a CronJob, on its Jobs, and when its time comes.
var Controller = &loop.Controller[*batchv1.CronJob]{
	Name:      "cronjob",
	For:       kinds.CronJobs,
	Wake:      []loop.Wake{loop.Owner(kinds.Jobs)},
	Writes:    []resource.Kind{kinds.Jobs, kinds.CronJobs},
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, cj *batchv1.CronJob) (time.Duration, error) {
	todo := plan(cj, resource.Owned(c, kinds.Jobs, cj), c.Now()) // observe, decide
	if todo.waits != "" {
		c.Waiting("%s", todo.waits)
	}
	return todo.again, act(ctx, c, cj, todo) // act
}

func act(ctx context.Context, c *loop.Ctx, cj *batchv1.CronJob, t todo) error {
	for _, e := range t.events {
		c.Event(kinds.CronJobs, cj, e.typ, e.reason, "%s", e.text)
	}
	var errs []error
	for _, j := range t.remove {
		errs = append(errs, remove(ctx, c, cj, j))
	}
	if !t.start.IsZero() && errors.Join(errs...) == nil {
		j, err := create(ctx, c, cj, t.start)
		if j != nil {
			t.status.Active = append(t.status.Active, reference(j))
			t.status.LastScheduleTime = &metav1.Time{Time: t.start}
		}
		errs = append(errs, err)
	}
	if !equality.Semantic.DeepEqual(cj.Status, t.status) {
		next := resource.Clone(cj)
		next.Status = t.status
		errs = append(errs, c.UpdateStatus(ctx, kinds.CronJobs, next))
	}
	return errors.Join(errs...)
}

func remove(ctx context.Context, c *loop.Ctx, cj *batchv1.CronJob, j *batchv1.Job) error {
	background := metav1.DeletePropagationBackground
	err := c.DeleteWith(ctx, kinds.Jobs, j, &metav1.DeleteOptions{PropagationPolicy: &background,
		Preconditions: &metav1.Preconditions{UID: &j.UID}})
	if err != nil {
		c.Event(kinds.CronJobs, cj, corev1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
		return err
	}
	c.Event(kinds.CronJobs, cj, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job %s", j.Name)
	return nil
}

var skew = &loop.Figure{Name: "cronjob_controller_job_creation_skew_duration_seconds",
	Help: "How much later than its time a job was made.", Bounds: loop.Doubling(1, 10)}

// create makes the job of one time of the schedule. Its name is the minute, so that it can't be made twice; one that exists
// and is ours counts as made.
func create(ctx context.Context, c *loop.Ctx, cj *batchv1.CronJob, at time.Time) (*batchv1.Job, error) {
	want := newJob(cj, at)
	made, err := c.Create(ctx, kinds.Jobs, want)
	switch {
	case err == nil:
		c.Measure(c.Now().Sub(at).Seconds(), skew)
		c.Event(kinds.CronJobs, cj, corev1.EventTypeNormal, "SuccessfulCreate", "Created job %s", want.Name)
		return made.(*batchv1.Job), nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, nil
	case apierrors.IsAlreadyExists(err):
		live, gerr := c.Client().Get(ctx, kinds.Jobs, want.Namespace, want.Name)
		if gerr != nil {
			return nil, gerr
		}
		if metav1.IsControlledBy(live, cj) {
			return live.(*batchv1.Job), nil
		}
		return nil, nil // somebody else's: whoever made it looks after it
	}
	c.Event(kinds.CronJobs, cj, corev1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
	return nil, err
}

func newJob(cj *batchv1.CronJob, at time.Time) *batchv1.Job {
	t := cj.Spec.JobTemplate.DeepCopy()
	annotations := maps.Clone(t.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	if cj.Spec.TimeZone == nil {
		at = at.UTC()
	}
	annotations[batchv1.CronJobScheduledTimestampAnnotation] = at.Format(time.RFC3339)
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: cj.Namespace, Name: jobName(cj, at), Labels: t.Labels,
		Annotations:     annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cj, kinds.CronJobs.GVK)}}, Spec: t.Spec}
}

func jobName(cj *batchv1.CronJob, at time.Time) string {
	return fmt.Sprintf("%s-%d", cj.Name, at.Unix()/60)
}

func reference(j *batchv1.Job) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: j.Namespace, Name: j.Name, UID: j.UID,
		ResourceVersion: j.ResourceVersion}
}
