package converge

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// crons are the ways in which a cron job does not start what is due.
func crons() []Situation {
	return []Situation{{"RunMissed", []resource.Kind{kinds.CronJobs}, runMissed}}
}

// cronJobHealth finds a gap where the loop says that it does not start a job that is due. One that is suspended is what its
// spec says.
func cronJobHealth(w *World, c *batchv1.CronJob) Health {
	if deref(c.Spec.Suspend, false) {
		return Health{}
	}
	if never(c, w.Now) {
		return Health{Says: "never starts a job", Want: "spec.schedule=" + c.Spec.Schedule, Have: "no day that is one of it"}
	}
	r, ok := w.record(ownerOf(kinds.CronJobs), kinds.CronJobs, c)
	if !ok || r.Note == "" {
		return Health{}
	}
	return Health{Says: "did not start a job that was due", Want: "spec.schedule=" + c.Spec.Schedule,
		Have: "status.lastScheduleTime=" + timeText(c), Since: r.LastGood}
}

func timeText(c *batchv1.CronJob) string {
	if c.Status.LastScheduleTime == nil {
		return "(unset)"
	}
	return c.Status.LastScheduleTime.UTC().Format("2006-01-02T15:04:05Z")
}

func runMissed(l *look) *Finding {
	c := l.obj.(*batchv1.CronJob)
	r, ok := l.record(l.owner, l.kind, c)
	if !ok || r.Note == "" {
		return nil
	}
	f := &Finding{Says: "missed it: " + r.Note, State: Waiting, Waits: forName("Time", "spec.schedule"),
		Next:   at(r.Next, l.owner, "starts the next one when it is due"),
		Advice: []string{"to run it now: kubectl create job --from=cronjob/" + c.Name + " " + c.Name + "-now -n " + c.Namespace}}
	if c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(c.Status.Active) > 0 {
		f.Says, f.Waits = "waits: "+r.Note, on("Object", Ref{kinds.Jobs, c.Namespace, c.Status.Active[0].Name}, "status.conditions[Complete]")
		f.Below = []Ref{{kinds.Jobs, c.Namespace, c.Status.Active[0].Name}}
	}
	return f
}
