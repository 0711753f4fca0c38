package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// What the loop counts of its work, under upstream's names.
var (
	perSync = []string{"completion_mode", "result", "action"}
	syncs   = &loop.Figure{Name: "job_controller_job_syncs_total", Help: "Looks at jobs that go on.", Labels: perSync}
	took    = &loop.Figure{Name: "job_controller_job_sync_duration_seconds", Help: "How long looks at jobs that go on took.", Labels: perSync,
		Bounds: loop.Doubling(0.004, 15)}
	finished = &loop.Figure{Name: "job_controller_jobs_finished_total", Help: "Jobs that came to an end.",
		Labels: []string{"completion_mode", "result", "reason"}}
	podsEnded = &loop.Figure{Name: "job_controller_job_pods_finished_total", Labels: []string{"completion_mode", "result"},
		Help: "Pods that ended and are counted in the status of their job."}
	byPolicy = &loop.Figure{Name: "job_controller_pod_failures_handled_by_failure_policy_total",
		Help: "Pods that failed as a rule of their job's policy says, by what it has done.", Labels: []string{"action"}}
	held = &loop.Figure{Name: "job_controller_terminated_pods_tracking_finalizer_total", Labels: []string{"event"},
		Help: "Pods that ended while the finalizer of jobs is on them (add), and those of them that lost it or went (delete)."}
)

// What a look at a job did.
const (
	reconciling = "reconciling" // its end, or nothing yet
	tracking    = "tracking"
	podsCreated = "pods_created"
	podsDeleted = "pods_deleted"
)

func mode(j *batchv1.Job) string {
	if m := j.Spec.CompletionMode; m != nil {
		return string(*m)
	}
	return string(batchv1.NonIndexedCompletion)
}

// measure counts a look at a job that was going on.
func measure(c *loop.Ctx, j *batchv1.Job, doing string, began time.Time, err error) {
	if ended(j.Status.Conditions) {
		return
	}
	result := "success"
	if err != nil {
		result = "error"
	}
	c.Count(syncs, mode(j), result, doing)
	c.Measure(c.Now().Sub(began).Seconds(), took, mode(j), result, doing)
}

// countEnds counts the pods by which the status of a job tells of more than before.
func countEnds(c *loop.Ctx, j *batchv1.Job, st batchv1.JobStatus) {
	for range st.Succeeded - j.Status.Succeeded {
		c.Count(podsEnded, mode(j), "succeeded")
	}
	for range st.Failed - j.Status.Failed {
		c.Count(podsEnded, mode(j), "failed")
	}
}

// countPolicy counts a pod with whose failure a rule dealt.
func countPolicy(c *loop.Ctx, j *batchv1.Job, p *corev1.Pod) {
	if p.Status.Phase == corev1.PodFailed && j.Spec.PodFailurePolicy != nil {
		if action, why := judge(j, p); why != "" {
			c.Count(byPolicy, string(action))
		}
	}
}

// countHeld counts pods that have ended and are held for a job to count, whosever they are, and those that are not any more.
func countHeld(c client.Change, f *loop.Figures) {
	was, is := endedHeld(c.Old), endedHeld(c.New)
	switch {
	case is && !was:
		f.Series(held, "add").Add(1)
	case was && !is:
		f.Series(held, "delete").Add(1)
	}
}

func endedHeld(obj resource.Object) bool {
	p, ok := obj.(*corev1.Pod)
	return ok && p != nil && core.Terminal(p) && tracked(p)
}
