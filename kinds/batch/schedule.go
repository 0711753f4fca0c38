package batch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// A CronSchedule is a cron expression that is understood.
type CronSchedule struct {
	Every time.Duration // what @every names; zero for all others

	spec *cron.SpecSchedule // nil for @every, and for a schedule that has no time
	gaps []time.Time        // where days are left out in the zone of the schedule: the instants after
}

// ParseSchedule reads a cron expression of five fields or a word such as @daily, as robfig/cron does: the library that Kubernetes
// uses too. Times are those of the zone; an expression that begins with TZ= or CRON_TZ= names its own.
func ParseSchedule(text string, zone *time.Location) (*CronSchedule, error) {
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		if !strings.Contains(text, " ") { // the library would panic
			return nil, errors.New("a schedule is missing after the time zone")
		}
	}
	parsed, err := cron.ParseStandard(text)
	if err != nil {
		return nil, err
	}
	switch p := parsed.(type) {
	case cron.ConstantDelaySchedule:
		return &CronSchedule{Every: p.Delay}, nil
	case *cron.SpecSchedule:
		if p.Minute == 0 || p.Hour == 0 || p.Dom == 0 && p.Dow == 0 || p.Month == 0 { // a field that is but a comma
			return &CronSchedule{}, nil // the library would look at every minute of five years
		}
		if p.Location == time.Local {
			p.Location = zone
		}
		return &CronSchedule{spec: p, gaps: daysLeftOut(p.Location)}, nil
	}
	return nil, fmt.Errorf("schedule %q: not understood", text)
}

// Next is the first time of the schedule after t; zero when there is none within five years.
func (s *CronSchedule) Next(t time.Time) time.Time {
	switch {
	case s.Every > 0:
		return cron.ConstantDelaySchedule{Delay: s.Every}.Next(t)
	case s.spec == nil:
		return time.Time{}
	}
	for _, gap := range s.gaps {
		if !t.Before(gap) || t.AddDate(6, 0, 0).Before(gap) {
			continue
		}
		// The library does not find its way over a day that is not there: up to it, the clock goes on as it stood.
		_, offset := gap.Add(-time.Second).In(s.spec.Location).Zone()
		before := *s.spec
		before.Location = time.FixedZone("", offset)
		if next := before.Next(t); !next.IsZero() && next.Before(gap) {
			return next
		}
		t = gap.Add(-time.Second)
	}
	// Where clocks were put back by an odd time the library may answer with a time that has passed.
	for from := t; from.Sub(t) < 48*time.Hour; from = from.Add(time.Hour) {
		if next := s.spec.Next(from); next.IsZero() || next.After(t) {
			return next
		}
	}
	return time.Time{}
}

// lastGap ends the search for days that are left out: later changes of clocks follow rules, which move hours.
const lastGap = 2040

// daysLeftOut are the instants at which the zone went over the date line and had one day less: Samoa on 30 December 2011.
func daysLeftOut(zone *time.Location) (gaps []time.Time) {
	_, end := time.Unix(-1<<40, 0).In(zone).ZoneBounds()
	for !end.IsZero() && end.Year() < lastGap {
		_, before := end.Add(-time.Second).In(zone).Zone()
		if _, after := end.In(zone).Zone(); after-before >= 20*60*60 {
			gaps = append(gaps, end)
		}
		_, end = end.In(zone).ZoneBounds()
	}
	return gaps
}
