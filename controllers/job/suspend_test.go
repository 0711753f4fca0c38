package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A job that is suspended has no start time, until it is resumed; who sets one meanwhile keeps it.
func TestSuspendedJobHasNotStarted(t *testing.T) {
	now, yes := time.Unix(1000, 0), true
	began := metav1.NewTime(now.Add(-time.Hour))
	w := &world{now: now, job: &batchv1.Job{Spec: batchv1.JobSpec{Suspend: &yes}}}
	st := batchv1.JobStatus{StartTime: &began}
	w.suspend(&st, false)
	if st.StartTime != nil || find(st.Conditions, batchv1.JobSuspended).Status != corev1.ConditionTrue {
		t.Fatalf("suspended: %+v", st)
	}
	st.StartTime = &began
	if w.suspend(&st, false); st.StartTime == nil {
		t.Error("taken again")
	}
	w.job.Spec.Suspend = nil
	if w.suspend(&st, false); !st.StartTime.Time.Equal(now) {
		t.Errorf("resumed: %+v", st)
	}
}
