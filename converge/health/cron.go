package health

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	kindsbatch "github.com/kloop-dev/kloop/kinds/batch"
	"github.com/kloop-dev/kloop/resource"
)

// cronJobHealth finds a gap where the loop says that it does not start a job that is due. One that is suspended is as its
// spec says.
func cronJobHealth(w *converge.World, c *batchv1.CronJob) converge.Health {
	if ptr.Deref(c.Spec.Suspend, false) {
		return converge.Health{}
	}
	if Never(c, w.Now) {
		return converge.Health{Says: "never starts a job", Want: "spec.schedule=" + c.Spec.Schedule, Have: "no day that is one of it"}
	}
	if j := LatestJob(w, c); j != nil && !jobHealth(w, j).Converged() && finishedBadly(j) {
		return converge.Health{Says: "has a last job that failed", Want: "a job that completes", Have: "job/" + j.Name + " failed",
			Since: jobHealth(w, j).Since}
	}
	r, ok := w.Record(converge.OwnerOf(kinds.CronJobs), kinds.CronJobs, c)
	if _, note := MissedBy(w, c); !ok && note != "" {
		r.Note, r.LastGood = note, w.Now
	}
	if r.Note == "" {
		return converge.Health{}
	}
	return converge.Health{Says: "did not start a job that was due", Want: "spec.schedule=" + c.Spec.Schedule,
		Have: "status.lastScheduleTime=" + timeText(c), Since: r.LastGood}
}

// LatestJob is the job that a cron job made last.
func LatestJob(w *converge.World, c *batchv1.CronJob) (last *batchv1.Job) {
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

// MissedBy tells, where the loop itself can't be asked, of a job that was due and was not started, and when the next one is.
func MissedBy(w *converge.World, c *batchv1.CronJob) (next time.Time, note string) {
	zone := time.UTC
	if name := ptr.Deref(c.Spec.TimeZone, ""); name != "" {
		in, err := time.LoadLocation(name)
		if err != nil {
			return next, NoZone + name
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
	edited := converge.Changed(c) // what was due before, by this schedule or another, is not known
	due := s.Next(from)
	next = s.Next(w.Now)
	switch {
	case due.IsZero() || w.Now.Sub(due) < missed:
		return next, ""
	case c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(c.Status.Active) > 0:
		return next, fmt.Sprintf("one was due at %s, and the one before it, job/%s, still runs; concurrencyPolicy is Forbid",
			due.UTC().Format("2006-01-02 15:04 MST"), c.Status.Active[0].Name)
	}
	if e := w.Warning(c.UID, "TooManyMissedTimes", "MissSchedule", "FailedNeedsStart", "FailedCreate"); e != nil &&
		converge.Told(e).After(due) {
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

// NoZone begins what is noted of a time zone that nobody knows.
const NoZone = "there is no time zone "

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
