package converge

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	kindsbatch "github.com/kloop-dev/kloop/kinds/batch"
	"github.com/kloop-dev/kloop/resource"
)

// crons are the ways in which a cron job does not start what is due.
func crons() []Situation {
	return []Situation{{"RunMissed", []resource.Kind{kinds.CronJobs}, runMissed}}
}

// cronJobHealth finds a gap where the loop says that it does not start a job that is due. One that is suspended is as its
// spec says.
func cronJobHealth(w *World, c *batchv1.CronJob) Health {
	if ptr.Deref(c.Spec.Suspend, false) {
		return Health{}
	}
	if never(c, w.Now) {
		return Health{Says: "never starts a job", Want: "spec.schedule=" + c.Spec.Schedule, Have: "no day that is one of it"}
	}
	if j := latestJob(w, c); j != nil && !jobHealth(w, j).Converged() && finishedBadly(j) {
		return Health{Says: "has a last job that failed", Want: "a job that completes", Have: "job/" + j.Name + " failed",
			Since: jobHealth(w, j).Since}
	}
	r, ok := w.record(ownerOf(kinds.CronJobs), kinds.CronJobs, c)
	if _, note := missedBy(w, c); !ok && note != "" {
		r.Note, r.LastGood = note, w.Now
	}
	if r.Note == "" {
		return Health{}
	}
	return Health{Says: "did not start a job that was due", Want: "spec.schedule=" + c.Spec.Schedule,
		Have: "status.lastScheduleTime=" + timeText(c), Since: r.LastGood}
}

// latestJob is the job that a cron job made last.
func latestJob(w *World, c *batchv1.CronJob) (last *batchv1.Job) {
	for _, j := range resource.Owned(w.Read, kinds.Jobs, c) {
		if last == nil || last.CreationTimestamp.Before(&j.CreationTimestamp) {
			last = j
		}
	}
	return last
}

func finishedBadly(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue
	})
}

// missedBy tells, where the loop itself can't be asked, of a job that was due and was not started, and when the next one is.
func missedBy(w *World, c *batchv1.CronJob) (next time.Time, note string) {
	zone := time.UTC
	if name := ptr.Deref(c.Spec.TimeZone, ""); name != "" {
		in, err := time.LoadLocation(name)
		if err != nil {
			return next, noZone + name
		}
		zone = in
	}
	s, err := kindsbatch.ParseSchedule(c.Spec.Schedule, zone)
	if err != nil {
		return next, ""
	}
	from := c.CreationTimestamp.Time
	if at := c.Status.LastScheduleTime; at != nil {
		from = at.Time
	}
	edited := changed(c) // what was due before, by this schedule or another, is not known
	due := s.Next(from)
	next = s.Next(w.Now)
	switch {
	case due.IsZero() || w.Now.Sub(due) < missed:
		return next, ""
	case c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(c.Status.Active) > 0:
		return next, fmt.Sprintf("one was due at %s, and the one before it, job/%s, still runs; concurrencyPolicy is Forbid",
			due.UTC().Format("2006-01-02 15:04 MST"), c.Status.Active[0].Name)
	}
	if e := w.warning(c.UID, "TooManyMissedTimes", "MissSchedule", "FailedNeedsStart", "FailedCreate"); e != nil && told(e).After(due) {
		return next, e.Message
	}
	if due = s.Next(latest(from, edited)); !due.IsZero() && w.Now.Sub(due) > overdue {
		return next, "one was due at " + due.UTC().Format("2006-01-02 15:04 MST") + " and was not started, for a reason that nothing tells"
	}
	return next, ""
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

const noZone = "there is no time zone "

// missed: a job that was not started so long after its time was missed.
const missed = time.Minute

// overdue: only the loop that starts jobs can be at fault so long after; clocks of machines do not differ by as much.
const overdue = 5 * time.Minute

func timeText(c *batchv1.CronJob) string {
	if c.Status.LastScheduleTime == nil {
		return "(unset)"
	}
	return c.Status.LastScheduleTime.UTC().Format("2006-01-02T15:04:05Z")
}

func runMissed(l *look) *Finding {
	c := l.obj.(*batchv1.CronJob)
	if j := latestJob(l.World, c); l.health.Says == "has a last job that failed" {
		return &Finding{Says: "waits for nothing: its last job, " + j.Name + ", failed", Owner: person, State: Failed,
			Waits: on("Object", refTo(kinds.Jobs, j), "status.conditions[Complete]"), Next: does(l.owner, "starts the next one when it is due"),
			Below: []Ref{refTo(kinds.Jobs, j)}}
	}
	r, ok := l.record(l.owner, l.kind, c)
	if at, note := missedBy(l.World, c); !ok {
		r.Note, r.Next = note, at
	}
	if r.Note == "" {
		return nil
	}
	f := &Finding{Says: "missed it: " + r.Note, State: Waiting, Waits: forName("Time", "spec.schedule"),
		Next:   at(r.Next, l.owner, "starts the next one when it is due"),
		Advice: []string{"to run it now: kubectl create job --from=cronjob/" + c.Name + " " + c.Name + "-now -n " + c.Namespace}}
	if n := c.Spec.StartingDeadlineSeconds; n != nil && *n < 10 {
		f.Says += fmt.Sprintf("; its startingDeadlineSeconds is %d: with less than 10 a run is easily missed", *n)
		f.Advice = append([]string{"kubectl patch cronjob " + c.Name + " -n " + c.Namespace + ` -p '{"spec":{"startingDeadlineSeconds":60}}'`},
			f.Advice...)
	}
	if zone := ptr.Deref(c.Spec.TimeZone, ""); zone != "" && r.Note == noZone+zone {
		f.Says, f.Owner, f.State, f.Waits = "is never due: "+r.Note, person, Blocked, on("Field", refTo(l.kind, c), "spec.timeZone")
		f.Next = does(person, "corrects spec.timeZone")
		f.Advice = append([]string{"name a zone of the IANA's list: kubectl patch cronjob " + c.Name + " -n " + c.Namespace +
			` -p '{"spec":{"timeZone":"Etc/UTC"}}'`}, f.Advice...)
	}
	if c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(c.Status.Active) > 0 {
		f.Says, f.Waits = "waits: "+r.Note, on("Object", Ref{kinds.Jobs, c.Namespace, c.Status.Active[0].Name}, "status.conditions[Complete]")
		f.Below = []Ref{{kinds.Jobs, c.Namespace, c.Status.Active[0].Name}}
	}
	return f
}
