package cronjob

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/kloop-dev/kloop/kinds/batch"
)

// parse reads the schedule of a cron job in its time zone.
func parse(cj *batchv1.CronJob) (*batch.CronSchedule, error) {
	zone := time.Local
	if cj.Spec.TimeZone != nil {
		var err error
		if zone, err = time.LoadLocation(*cj.Spec.TimeZone); err != nil {
			return nil, err
		}
	}
	return batch.ParseSchedule(cj.Spec.Schedule, zone)
}

// oldest is the number of years for which times of a schedule are made up at most. It bounds the search.
const oldest = 10

// latest is the last time of the schedule after `after` and not after now; zero when there is none.
func latest(s *batch.CronSchedule, after, now time.Time) (at time.Time) {
	if limit := now.AddDate(-oldest, 0, 0); after.Before(limit) {
		after = limit
	}
	first := s.Next(after)
	if first.IsZero() || first.After(now) {
		return time.Time{}
	}
	if s.Every > 0 {
		return after.Add(now.Sub(after) / s.Every * s.Every)
	}
	// Look back over longer and longer times: a schedule that runs often has a near one.
	for back := time.Minute; ; back *= 2 {
		from := now.Add(-back)
		if from.Before(first) {
			at, from = first, first
		}
		for t := s.Next(from); !t.IsZero() && !t.After(now); t = s.Next(t) {
			at = t
		}
		if !at.IsZero() {
			return at
		}
	}
}
