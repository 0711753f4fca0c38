package cronjob

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/batch"
	"github.com/kloop-dev/kloop/resource"
)

// A todo is one pass's difference between wish and world.
type todo struct {
	start  time.Time // of the schedule, whose job is to be made; zero: none
	remove []*batchv1.Job
	status batchv1.CronJobStatus
	again  time.Duration
	events []event
	waits  string // for what it does not start the job that is due, in words
}

type event struct{ typ, reason, text string }

// plan is pure: same cron job, same jobs, same time, same answer.
func plan(cj *batchv1.CronJob, jobs []*batchv1.Job, now time.Time) (t todo) {
	t.status = *cj.Status.DeepCopy()
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	running := t.look(cj, jobs)
	if cj.DeletionTimestamp != nil {
		return t
	}
	t.tidy(cj, jobs)
	s := t.read(cj)
	if s == nil {
		return t // until it is changed
	}
	if next := s.Next(now); !next.IsZero() {
		t.again = next.Sub(now) + time.Millisecond
	} else { // as on the 30th of February
		t.warn("InvalidSchedule", fmt.Sprintf(
			"invalid schedule: %s : time difference between two schedules is less than 1 second", cj.Spec.Schedule))
	}
	at, many := due(cj, s, now)
	if many {
		t.warn("TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	if missed := latest(s, since(cj), now); at.IsZero() && !missed.IsZero() {
		t.waits = fmt.Sprintf("its time of %s passed more than its startingDeadlineSeconds of %d ago",
			missed.UTC().Format("2006-01-02 15:04 MST"), *cj.Spec.StartingDeadlineSeconds)
	}
	switch {
	case at.IsZero():
		return t
	case slices.ContainsFunc(jobs, func(j *batchv1.Job) bool { return j.Name == jobName(cj, at) }):
		t.status.LastScheduleTime = &metav1.Time{Time: at} // the status did not come to tell
		return t
	case len(running) > 0 && cj.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent:
		t.say("JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
		t.waits = "job/" + running[0].Name + " of an earlier time still runs, and its concurrencyPolicy is Forbid"
		return t
	case cj.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent:
		t.remove = append(t.remove, running...)
		t.status.Active = nil
	}
	t.start = at
	return t
}

// read returns the schedule, nil when there is none to follow: an event says why, unless the CronJob is suspended.
func (t *todo) read(cj *batchv1.CronJob) *batch.CronSchedule {
	if z := cj.Spec.TimeZone; z != nil {
		if _, err := time.LoadLocation(*z); err != nil {
			t.warn("UnknownTimeZone", fmt.Sprintf("invalid timeZone: %q: %v", *z, err))
			return nil
		}
	}
	if cj.Spec.Suspend != nil && *cj.Spec.Suspend {
		return nil
	}
	if strings.Contains(cj.Spec.Schedule, "TZ") {
		t.warn("UnsupportedSchedule", fmt.Sprintf("CRON_TZ or TZ used in schedule %q is not officially supported, "+
			"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", cj.Spec.Schedule))
	}
	s, err := parse(cj)
	if err != nil {
		t.warn("UnparseableSchedule", fmt.Sprintf("unparseable schedule: %q : %v", cj.Spec.Schedule, err))
		return nil
	}
	return s
}

func (t *todo) say(reason, text string) {
	t.events = append(t.events, event{corev1.EventTypeNormal, reason, text})
}

func (t *todo) warn(reason, text string) {
	t.events = append(t.events, event{corev1.EventTypeWarning, reason, text})
}

// manyMissed is the number of times of the schedule that may pass before somebody should hear of it.
const manyMissed = 100

// due is the time of the schedule that has passed and has no job yet, zero when there is none, and whether very many
// passed before it.
func due(cj *batchv1.CronJob, s *batch.CronSchedule, now time.Time) (at time.Time, many bool) {
	after := since(cj)
	if d := cj.Spec.StartingDeadlineSeconds; d != nil {
		if limit := now.Add(-resource.Seconds(*d)); limit.After(after) {
			after = limit
		}
	}
	if at = latest(s, after, now); at.IsZero() {
		return at, false
	}
	next := s.Next(after)
	for n := 0; n <= manyMissed && !next.IsZero() && !next.After(now); n++ {
		many = n == manyMissed
		next = s.Next(next)
	}
	return at, many
}

// since is the time at which the newest job was due, or the cron job was made.
func since(cj *batchv1.CronJob) time.Time {
	if last := cj.Status.LastScheduleTime; last != nil {
		return last.Time
	}
	return cj.CreationTimestamp.Time
}

// scheduled tells whether the job is one that the schedule makes: it has the name of its time.
func scheduled(cj *batchv1.CronJob, j *batchv1.Job) bool {
	at, err := time.Parse(time.RFC3339, j.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	return err == nil && j.Name == jobName(cj, at)
}

// look brings the status in line with the jobs and returns those that run. A job that the schedule made belongs to it even
// if the status did not come to tell; one that somebody else made does not.
func (t *todo) look(cj *batchv1.CronJob, jobs []*batchv1.Job) (running []*batchv1.Job) {
	var active []corev1.ObjectReference
	for _, j := range jobs {
		at := slices.IndexFunc(t.status.Active, func(r corev1.ObjectReference) bool { return r.UID == j.UID })
		end, done := ended(j)
		switch {
		case !done && at >= 0:
			active = append(active, t.status.Active[at])
			running = append(running, j)
		case !done && !scheduled(cj, j):
			t.warn("UnexpectedJob", "Saw a job that the controller did not create or forgot: "+j.Name)
		case !done:
			active = append(active, reference(j))
			running = append(running, j)
		case at >= 0:
			t.say("SawCompletedJob", fmt.Sprintf("Saw completed job: %s, condition: %s", j.Name, end))
		}
		if last := t.status.LastSuccessfulTime; done && end == batchv1.JobComplete && j.Status.CompletionTime != nil &&
			(last == nil || last.Before(j.Status.CompletionTime)) {
			t.status.LastSuccessfulTime = &metav1.Time{Time: j.Status.CompletionTime.Time}
		}
	}
	for _, r := range t.status.Active {
		if !slices.ContainsFunc(jobs, func(j *batchv1.Job) bool { return j.UID == r.UID }) {
			t.say("MissingJob", "Active job went missing: "+r.Name)
		}
	}
	t.status.Active = active
	return running
}

// tidy removes the oldest of the jobs that ended, beyond the limits.
func (t *todo) tidy(cj *batchv1.CronJob, jobs []*batchv1.Job) {
	for end, limit := range map[batchv1.JobConditionType]*int32{
		batchv1.JobComplete: cj.Spec.SuccessfulJobsHistoryLimit, batchv1.JobFailed: cj.Spec.FailedJobsHistoryLimit} {
		var list []*batchv1.Job
		for _, j := range jobs {
			if e, done := ended(j); done && e == end {
				list = append(list, j)
			}
		}
		if limit != nil && len(list) > int(*limit) {
			t.remove = append(t.remove, list[:len(list)-int(*limit)]...)
		}
	}
}

func ended(j *batchv1.Job) (batchv1.JobConditionType, bool) {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type, true
		}
	}
	return "", false
}
