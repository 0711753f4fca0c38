package controllers_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// jobOf makes a job whose pods end with the exit code; "" runs on.
func jobOf(name, exit string, edit func(*batchv1.JobSpec)) *batchv1.Job {
	t := template(map[string]string{"job": name})
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	t.Annotations = map[string]string{"sim.kloop.dev/exit": exit}
	if exit == "" {
		t.Annotations = map[string]string{"sim.kloop.dev/keep": "1"}
	}
	j := &batchv1.Job{ObjectMeta: meta(name), Spec: batchv1.JobSpec{Template: t}}
	if edit != nil {
		edit(&j.Spec)
	}
	return j
}

func TestJobs(t *testing.T) {
	indexed, six := batchv1.IndexedCompletion, int32(6)
	zero := "0"
	for _, tt := range []struct {
		name, exit string
		edit       func(*batchv1.JobSpec)
		last       batchv1.JobConditionType
		reason     string
		succeeded  int32
		failed     int32
		indexes    string
	}{
		{"simple", "0", nil, batchv1.JobComplete, "CompletionsReached", 1, 0, ""},
		{"two-at-a-time", "0", func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = new(int32(5)), new(int32(2)) },
			batchv1.JobComplete, "CompletionsReached", 5, 0, ""},
		{"many", "0", func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = new(int32(200)), new(int32(200)) },
			batchv1.JobComplete, "CompletionsReached", 200, 0, ""},
		{"fails", "3", func(s *batchv1.JobSpec) { s.BackoffLimit = new(int32) }, batchv1.JobFailed, "BackoffLimitExceeded", 0, 1, ""},
		{"fails-thrice", "3", func(s *batchv1.JobSpec) { s.BackoffLimit = new(int32(2)) }, batchv1.JobFailed, "BackoffLimitExceeded", 0, 3, ""},
		{"deadline", "", func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = new(int64(2)) }, batchv1.JobFailed, "DeadlineExceeded", 0, 1, ""},
		{"deadline-replaces-failed", "", func(s *batchv1.JobSpec) {
			s.ActiveDeadlineSeconds, s.Parallelism, s.PodReplacementPolicy = new(int64(2)), new(int32(2)), new(batchv1.Failed)
		}, batchv1.JobFailed, "DeadlineExceeded", 0, 2, ""},
		{"indexed", "0", func(s *batchv1.JobSpec) { s.Completions, s.CompletionMode = &six, &indexed }, batchv1.JobComplete,
			"CompletionsReached", 6, 0, "0-5"},
		{"policy", "42", func(s *batchv1.JobSpec) {
			s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: batchv1.PodFailurePolicyActionFailJob,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42}}}}}
		}, batchv1.JobFailed, "PodFailurePolicy", 0, 1, ""},
		{"success", "0", func(s *batchv1.JobSpec) {
			s.Completions, s.CompletionMode, s.Parallelism = &six, &indexed, new(int32(1))
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: &zero}}}
		}, batchv1.JobComplete, "SuccessPolicy", 1, 0, "0"},
		{"per-index", "1", func(s *batchv1.JobSpec) {
			s.Completions, s.CompletionMode, s.BackoffLimitPerIndex, s.Parallelism = new(int32(2)), &indexed, new(int32(1)), new(int32(2))
		}, batchv1.JobFailed, "FailedIndexes", 0, 4, ""},
		{"max-failed-indexes", "1", func(s *batchv1.JobSpec) {
			s.Completions, s.CompletionMode, s.Parallelism = &six, &indexed, new(int32(1))
			s.BackoffLimitPerIndex, s.MaxFailedIndexes = new(int32), new(int32(1))
		}, batchv1.JobFailed, "MaxFailedIndexesExceeded", 0, 2, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			simulate(t, 2, func(c *cluster) {
				make1(c, kinds.Jobs, jobOf(tt.name, tt.exit, tt.edit))
				var st batchv1.JobStatus
				c.until("the job has ended", func(r resource.Reader) bool {
					st = resource.Get(r, kinds.Jobs, "default", tt.name).Status
					n := len(st.Conditions)
					return n > 0 && (st.Conditions[n-1].Type == batchv1.JobComplete || st.Conditions[n-1].Type == batchv1.JobFailed)
				})
				end := st.Conditions[len(st.Conditions)-1]
				if end.Type != tt.last || end.Reason != tt.reason || st.Succeeded != tt.succeeded || st.Failed != tt.failed ||
					st.CompletedIndexes != tt.indexes {
					t.Errorf("%s %s, succeeded %d, failed %d, indexes %q", end.Type, end.Reason, st.Succeeded, st.Failed, st.CompletedIndexes)
				}
				result := map[batchv1.JobConditionType]string{batchv1.JobComplete: "succeeded", batchv1.JobFailed: "failed"}[tt.last]
				for _, f := range []struct {
					name   string
					labels []string
					want   float64
				}{{"job_controller_jobs_finished_total", []string{"", result, tt.reason}, 1}, {"job_controller_jobs_finished_total", nil, 1},
					{"job_controller_job_pods_finished_total", []string{"", "succeeded"}, float64(tt.succeeded)},
					{"job_controller_job_pods_finished_total", []string{"", "failed"}, float64(tt.failed)}} {
					if got := c.counted(f.name, f.labels...); got != f.want {
						t.Errorf("%s %q: %v, want %v", f.name, f.labels, got, f.want)
					}
				}
				const held = "job_controller_terminated_pods_tracking_finalizer_total"
				if in, out := c.counted(held, "add"), c.counted(held, "delete"); in != out || in < float64(tt.succeeded+tt.failed) {
					t.Errorf("%v pods that ended were held, %v were let go", in, out)
				}
				if c.counted("job_controller_job_syncs_total", "", "success", "pods_created") == 0 ||
					(c.counted("job_controller_pod_failures_handled_by_failure_policy_total", "FailJob") == 1) != (tt.name == "policy") {
					t.Error("looks, or pods with which a rule dealt, are not counted")
				}
				if u := st.UncountedTerminatedPods; st.Active != 0 || *st.Ready != 0 || *st.Terminating != 0 || u == nil ||
					len(u.Failed)+len(u.Succeeded) > 0 {
					t.Errorf("at the end: %+v", st)
				}
				for _, p := range resource.List(c.Read(), kinds.Pods, "default") {
					if len(p.Finalizers) > 0 {
						t.Errorf("%s is not released", p.Name)
					}
				}
			})
		})
	}
}

func TestJobSuspendAndDelete(t *testing.T) {
	simulate(t, 2, func(c *cluster) {
		make1(c, kinds.Jobs, jobOf("j", "", func(s *batchv1.JobSpec) { s.Parallelism = new(int32(3)) }))
		active := func(n int32) func(r resource.Reader) bool {
			return func(r resource.Reader) bool { return resource.Get(r, kinds.Jobs, "default", "j").Status.Active == n }
		}
		c.until("three run", active(3))
		edit(c, kinds.Jobs, "default", "j", "", func(j *batchv1.Job) { j.Spec.Suspend = new(true) })
		c.until("none while it is suspended", func(r resource.Reader) bool {
			return active(0)(r) && len(resource.List(r, kinds.Pods, "default")) == 0
		})
		edit(c, kinds.Jobs, "default", "j", "", func(j *batchv1.Job) { j.Spec.Suspend = new(bool) })
		c.until("three run again", active(3))
		if n := resource.Get(c.Read(), kinds.Jobs, "default", "j").Status.Failed; n != 0 {
			c.t.Errorf("%d failures by being suspended", n)
		}
		if err := c.Delete(c.t.Context(), kinds.Jobs, "default", "j", backgroundly()); err != nil {
			c.t.Fatal(err)
		}
		c.until("nothing is left", func(r resource.Reader) bool {
			return resource.Get(r, kinds.Jobs, "default", "j") == nil && len(resource.List(r, kinds.Pods, "default")) == 0
		})
	})
}

// A pod that a job lets go of is no longer tracked: it can be deleted, and its namespace with it. One that a job adopts is.
func TestJobReleasesAndAdopts(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		make1(c, kinds.Jobs, jobOf("j", "", nil))
		name := ""
		c.until("its pod runs", func(r resource.Reader) bool {
			list := resource.List(r, kinds.Pods, "default")
			if len(list) == 1 {
				name = list[0].Name
			}
			return len(list) == 1 && list[0].Status.Phase == corev1.PodRunning
		})
		label := ""
		edit(c, kinds.Pods, "default", name, "", func(p *corev1.Pod) {
			label = p.Labels[batchv1.ControllerUidLabel]
			p.Labels[batchv1.ControllerUidLabel] = "other"
		})
		released := func(r resource.Reader) bool {
			p := resource.Get(r, kinds.Pods, "default", name)
			return p == nil || len(p.OwnerReferences) == 0 && len(p.Finalizers) == 0
		}
		c.until("the pod is released, and untracked", released)
		c.until("another runs in its place", func(r resource.Reader) bool {
			j := resource.Get(r, kinds.Jobs, "default", "j")
			return len(resource.Owned(r, kinds.Pods, j)) == 1 && j.Status.Active == 1
		})
		edit(c, kinds.Pods, "default", name, "", func(p *corev1.Pod) { p.Labels[batchv1.ControllerUidLabel] = label })
		c.until("one of the two, both owned now, is let go", func(r resource.Reader) bool {
			j := resource.Get(r, kinds.Jobs, "default", "j")
			return len(resource.Owned(r, kinds.Pods, j)) == 1 && j.Status.Active == 1 && len(resource.List(r, kinds.Pods, "default")) == 1
		})
	})
}

// A job whose pods are refused is tried again after a second, then after two, and so on: each try is an event.
func TestJobRefused(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		j := jobOf("j", "0", func(s *batchv1.JobSpec) { s.Parallelism = new(int32(3)) })
		j.Spec.Template.Spec.ServiceAccountName = "none"
		make1(c, kinds.Jobs, j)
		tries := func(r resource.Reader) (n int32) {
			for _, e := range resource.List(r, kinds.Events, "default") {
				if e.Reason == "FailedCreate" && e.InvolvedObject.Name == "j" {
					n += max(e.Count, 1)
				}
			}
			return n
		}
		c.until("it is refused", func(r resource.Reader) bool { return tries(r) > 0 })
		time.Sleep(14 * time.Second)
		if n := tries(c.Read()); n < 3 || n > 6 {
			t.Errorf("%d tries in 14 seconds, want one, and others after 1, 3, and 7 seconds", n)
		}
		make1(c, kinds.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: meta("none")})
		c.until("it is done", func(r resource.Reader) bool { return resource.Get(r, kinds.Jobs, "default", "j").Status.Succeeded > 0 })
	})
}
