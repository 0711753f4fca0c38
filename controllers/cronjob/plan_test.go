package cronjob

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t
}

func cron(schedule string, zone *string) *batchv1.CronJob {
	return &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: schedule, TimeZone: zone}}
}

// The last time of a schedule is found wherever the search begins, in bounded time.
func TestLatest(t *testing.T) {
	havana, now := "America/Havana", at("2026-03-10 12:00:00")
	for _, tt := range []struct{ expr, after, want string }{
		{"* * * * *", "0001-01-01 00:00:00", "2026-03-10 12:00:00"},
		{"0 0 30 2 *", "0001-01-01 00:00:00", "0001-01-01 00:00:00"},
		{", * * * *", "0001-01-01 00:00:00", "0001-01-01 00:00:00"},
		{"0 12 15 3 *", "2026-03-01 00:00:00", "0001-01-01 00:00:00"},
		{"0 12 15 3 *", "2025-03-01 00:00:00", "2025-03-15 16:00:00"},
		{"0 0 29 2 *", "1900-01-01 00:00:00", "2024-02-29 05:00:00"},
		{"@every 7h", "2026-03-09 12:00:00", "2026-03-10 09:00:00"},
		{"@hourly", "9999-01-01 00:00:00", "0001-01-01 00:00:00"},
	} {
		t.Run(tt.expr, func(t *testing.T) {
			s, err := parse(cron(tt.expr, &havana))
			if err != nil {
				t.Fatal(err)
			}
			if got := latest(s, at(tt.after), now); !got.Equal(at(tt.want)) {
				t.Errorf("%s after %s: %s, want %s", tt.expr, tt.after, got.UTC(), tt.want)
			}
		})
	}
}

func TestNext(t *testing.T) {
	utc := "UTC"
	for _, tt := range []struct{ expr, from, want string }{
		{"* * * * *", "2026-01-31 23:59:30", "2026-02-01 00:00:00"},
		{"*/15 * * * *", "2026-01-01 10:15:00", "2026-01-01 10:30:00"},
		{"0 3 * * *", "2026-01-01 03:00:00", "2026-01-02 03:00:00"},
		{"5-7,30 4 * * *", "2026-01-01 04:07:10", "2026-01-01 04:30:00"},
		{"0 0 29 2 *", "2026-01-01 00:00:00", "2028-02-29 00:00:00"},
		{"0 0 13 * fri", "2026-01-01 00:00:00", "2026-01-02 00:00:00"},
		{"0 0 * jan mon-wed", "2026-01-01 00:00:00", "2026-01-05 00:00:00"},
		{"@hourly", "2026-01-01 10:15:00", "2026-01-01 11:00:00"},
		{"@every 90s", "2026-01-01 10:15:00", "2026-01-01 10:16:30"},
		{"TZ=Asia/Tokyo 0 9 * * *", "2026-01-01 10:15:00", "2026-01-02 00:00:00"},
		{"0 0 31 2 *", "2026-01-01 00:00:00", "0001-01-01 00:00:00"},
	} {
		t.Run(tt.expr, func(t *testing.T) {
			s, err := parse(cron(tt.expr, &utc))
			if err != nil {
				t.Errorf("%s: %v", tt.expr, err)
				return
			}
			if got := s.Next(at(tt.from)); !got.Equal(at(tt.want)) {
				t.Errorf("%s after %s: %s, want %s", tt.expr, tt.from, got, tt.want)
			}
		})
	}
	for _, bad := range []string{"", "* * * *", "60 * * * *", "*/0 * * * *", "x * * * *"} {
		if _, err := parse(cron(bad, nil)); err == nil {
			t.Errorf("%q is a schedule", bad)
		}
	}
}

func TestPlan(t *testing.T) {
	utc, now := "UTC", at("2026-01-01 10:07:30")
	job := func(minute string, end batchv1.JobConditionType) *batchv1.Job {
		when := at("2026-01-01 " + minute + ":00")
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%d", when.Unix()/60), UID: types.UID(minute),
			CreationTimestamp: metav1.NewTime(when),
			Annotations:       map[string]string{batchv1.CronJobScheduledTimestampAnnotation: when.Format(time.RFC3339)}}}
		if end != "" {
			j.Status.Conditions = []batchv1.JobCondition{{Type: end, Status: corev1.ConditionTrue}}
		}
		return j
	}
	three := int32(3)
	byHand := job("10:00", "")
	byHand.Name, byHand.Annotations = "mine", map[string]string{"cronjob.kubernetes.io/instantiate": "manual"}
	for _, tt := range []struct {
		name   string
		policy batchv1.ConcurrencyPolicy
		edit   func(*batchv1.CronJob)
		last   string
		jobs   []*batchv1.Job
		start  string
		remove int
		active int
		say    string // reasons of events
		never  bool   // no look when the next time comes
	}{
		{name: "due", last: "10:00", start: "10:05"},
		{name: "done", last: "10:05"},
		{name: "made, but the status was not stored", last: "10:00", jobs: []*batchv1.Job{job("10:05", "")}, active: 1},
		{name: "of many missed ones the last", last: "03:00", start: "10:05"},
		{name: "of very many", last: "01:00", start: "10:05", say: "TooManyMissedTimes"},
		{name: "one made by hand", policy: batchv1.ForbidConcurrent, last: "10:00", jobs: []*batchv1.Job{byHand}, start: "10:05",
			say: "UnexpectedJob"},
		{name: "one that is gone", last: "10:05",
			edit: func(c *batchv1.CronJob) { c.Status.Active = []corev1.ObjectReference{{UID: "x", Name: "x"}} }, say: "MissingJob"},
		{name: "too late", last: "10:00", edit: func(c *batchv1.CronJob) { c.Spec.StartingDeadlineSeconds = new(int64(60)) }},
		{name: "suspended", last: "10:00", edit: func(c *batchv1.CronJob) {
			c.Spec.Suspend, c.Spec.Schedule = new(true),
				"TZ=UTC 1 1 1 1 1"
		}, never: true},
		{name: "no such zone", edit: func(c *batchv1.CronJob) { c.Spec.TimeZone = new("Nowhere/Land") }, last: "10:00",
			jobs: []*batchv1.Job{job("10:00", "")}, active: 1, say: "UnknownTimeZone", never: true},
		{name: "no such schedule", edit: func(c *batchv1.CronJob) { c.Spec.Schedule, c.Spec.FailedJobsHistoryLimit = "x", new(int32) },
			last: "10:00",
			jobs: []*batchv1.Job{job("10:00", "Failed")}, remove: 1, say: "UnparseableSchedule", never: true},
		{name: "a zone in the schedule", edit: func(c *batchv1.CronJob) { c.Spec.Schedule, c.Spec.TimeZone = "TZ=UTC */5 * * * *", nil },
			last: "10:05", say: "UnsupportedSchedule"},
		{name: "a day that never comes", edit: func(c *batchv1.CronJob) { c.Spec.Schedule = "0 0 30 2 *" }, last: "10:00",
			say: "InvalidSchedule", never: true},
		{name: "one runs", last: "10:00", jobs: []*batchv1.Job{job("10:00", "")}, start: "10:05", active: 1},
		{name: "one runs and forbids", policy: batchv1.ForbidConcurrent, last: "10:00", jobs: []*batchv1.Job{job("10:00", "")}, active: 1,
			say: "JobAlreadyActive"},
		{name: "one runs and is replaced", policy: batchv1.ReplaceConcurrent, last: "10:00", jobs: []*batchv1.Job{job("10:00", "")},
			start: "10:05", remove: 1},
		{name: "history", last: "10:05", edit: func(c *batchv1.CronJob) { c.Spec.SuccessfulJobsHistoryLimit = &three },
			jobs: []*batchv1.Job{job("09:00", "Complete"), job("09:05", "Complete"), job("09:10", "Complete"), job("09:15", "Complete"),
				job("09:20", "Complete")}, remove: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: batchv1.CronJobSpec{Schedule: "*/5 * * * *",
				TimeZone: &utc, ConcurrencyPolicy: tt.policy}}
			cj.Status.LastScheduleTime = &metav1.Time{Time: at("2026-01-01 " + tt.last + ":00")}
			if tt.edit != nil {
				tt.edit(cj)
			}
			got := plan(cj, tt.jobs, now)
			start := ""
			if !got.start.IsZero() {
				start = got.start.Format("15:04")
			}
			if start != tt.start || len(got.remove) != tt.remove || len(got.status.Active) != tt.active {
				t.Errorf("%s: start %q, remove %d, active %d; want %q, %d, %d", tt.name, start, len(got.remove), len(got.status.Active),
					tt.start, tt.remove, tt.active)
			}
			var say []string
			for _, e := range got.events {
				say = append(say, e.reason)
			}
			if strings.Join(say, " ") != tt.say {
				t.Errorf("%s: events %q, want %q", tt.name, say, tt.say)
			}
			if last := got.status.LastScheduleTime; strings.Contains(tt.name, "not stored") && !last.Time.Equal(at("2026-01-01 10:05:00")) {
				t.Errorf("%s: last scheduled %v", tt.name, last)
			}
			if want := 2*time.Minute + 30*time.Second + time.Millisecond; (got.again == want) == tt.never {
				t.Errorf("%s: again in %v, want %v", tt.name, got.again, want)
			}
		})
	}
}

// A job that is due and not started is told: for an earlier one, or because its time is over.
func TestWaits(t *testing.T) {
	minute, yes := int64(60), true
	last := metav1.NewTime(at("2026-01-01 08:00:00"))
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "1"}, Spec: batchv1.CronJobSpec{Schedule: "0 * * * *",
		TimeZone: new("UTC"), StartingDeadlineSeconds: &minute}, Status: batchv1.CronJobStatus{LastScheduleTime: &last}}
	if got := plan(cj, nil,
		at("2026-01-01 10:30:00")).waits; got != "its time of 2026-01-01 10:00 UTC passed more than its startingDeadlineSeconds of 60 ago" {
		t.Errorf("missed: %q", got)
	}
	cj.Spec.StartingDeadlineSeconds, cj.Spec.ConcurrencyPolicy = nil, batchv1.ForbidConcurrent
	cj.Status.Active = []corev1.ObjectReference{{UID: "8"}}
	busy := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "c-8", UID: "8",
		OwnerReferences: []metav1.OwnerReference{{UID: "1", Controller: &yes}}}}
	if got := plan(cj, []*batchv1.Job{busy},
		at("2026-01-01 10:30:00")).waits; got != "job/c-8 of an earlier time still runs, and its concurrencyPolicy is Forbid" {
		t.Errorf("forbidden: %q", got)
	}
	cj.Spec.Suspend = &yes
	if got := plan(cj, nil, at("2026-01-01 10:30:00")).waits; got != "" {
		t.Errorf("suspended: %q", got)
	}
}
