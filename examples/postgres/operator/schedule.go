package operator

import (
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// due is the result of a look at the schedule.
type due struct {
	backup *v1alpha1.PostgresBackup // to be made now; nil: none
	again  time.Duration            // until the next one
}

// schedule notes in status for when a backup was made last. What was missed is made up for once.
func schedule(w World, status *v1alpha1.PostgresClusterStatus) (due, error) {
	c := w.Cluster
	if c.Spec.BackupSchedule == "" || status.CurrentPrimary == "" {
		return due{}, nil
	}
	plan, err := cron.ParseStandard(c.Spec.BackupSchedule)
	if err != nil {
		return due{}, nil // the condition says so
	}
	now := w.Now.UTC()
	if status.LastScheduled == nil {
		status.LastScheduled = &metav1.Time{Time: now.Truncate(time.Second)} // the first is due at the next time
	}
	next := plan.Next(status.LastScheduled.UTC())
	if next.IsZero() || next.After(now) {
		return due{again: next.Sub(now)}, nil
	}
	for range 1000 { // the latest of those missed
		after := plan.Next(next)
		if after.IsZero() || after.After(now) {
			break
		}
		next = after
	}
	status.LastScheduled = &metav1.Time{Time: next}
	b := &v1alpha1.PostgresBackup{ObjectMeta: belonging(c, c.Name+"-"+next.Format("20060102-1504"), nil),
		Spec: v1alpha1.PostgresBackupSpec{Cluster: c.Name}}
	return due{backup: b, again: time.Second}, nil
}
