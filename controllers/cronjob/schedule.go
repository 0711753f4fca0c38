package cronjob

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// A schedule is a cron expression that is understood.
type schedule struct {
	minute, hour, day, month, weekday uint64 // sets of values, as bits
	anyDay, anyWeekday                bool   // written as *
	every                             time.Duration
	zone                              *time.Location
}

// words are the schedules that have names.
func words(s string) string {
	switch s {
	case "@yearly", "@annually":
		return "0 0 1 1 *"
	case "@monthly":
		return "0 0 1 * *"
	case "@weekly":
		return "0 0 * * 0"
	case "@daily", "@midnight":
		return "0 0 * * *"
	case "@hourly":
		return "0 * * * *"
	}
	return s
}

// parse reads a cron expression, in the zone unless it names one itself.
func parse(text string, zone *string) (*schedule, error) {
	s := &schedule{zone: time.Local}
	name := ""
	if zone != nil {
		name = *zone
	}
	if rest, ok := strings.CutPrefix(strings.TrimPrefix(text, "CRON_"), "TZ="); ok {
		name, text, _ = strings.Cut(rest, " ")
	}
	if name != "" {
		var err error
		if s.zone, err = time.LoadLocation(name); err != nil {
			return nil, fmt.Errorf("time zone %q: %w", name, err)
		}
	}
	text = strings.TrimSpace(text)
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		d, err := time.ParseDuration(every)
		s.every = max(d, time.Second)
		return s, err
	}
	parts := strings.Fields(words(text))
	if len(parts) != 5 {
		return nil, fmt.Errorf("schedule %q: expected 5 fields, found %d", text, len(parts))
	}
	for i, f := range []struct {
		into     *uint64
		min, max int
		names    string
	}{
		{&s.minute, 0, 59, ""}, {&s.hour, 0, 23, ""}, {&s.day, 1, 31, ""},
		{&s.month, 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"}, {&s.weekday, 0, 6, "sun mon tue wed thu fri sat"},
	} {
		set, err := field(parts[i], f.min, f.max, strings.Fields(f.names))
		if err != nil {
			return nil, fmt.Errorf("schedule %q: %w", text, err)
		}
		*f.into = set
	}
	s.anyDay, s.anyWeekday = star(parts[2]), star(parts[4])
	return s, nil
}

func star(field string) bool { return field[0] == '*' || field[0] == '?' }

// field reads one list of values, ranges and steps.
func field(text string, low, high int, names []string) (set uint64, err error) {
	value := func(s string) int {
		for i, n := range names {
			if strings.EqualFold(n, s) {
				return low + i
			}
		}
		n, verr := strconv.Atoi(s)
		if verr != nil || n < low || n > high {
			err = fmt.Errorf("value %q", s)
			return low
		}
		return n
	}
	for _, item := range strings.Split(text, ",") {
		span, stepText, stepped := strings.Cut(item, "/")
		from, to, ranged := strings.Cut(span, "-")
		first, last, step := low, high, 1
		if from != "*" && from != "?" {
			first = value(from)
			last = first
			if ranged {
				last = value(to)
			} else if stepped {
				last = high
			}
		}
		if stepped {
			if step, _ = strconv.Atoi(stepText); step <= 0 {
				return 0, fmt.Errorf("step %q", stepText)
			}
		}
		for v := first; v <= last; v += step {
			set |= 1 << v
		}
	}
	return set, err
}

// next is the first time of the schedule after t; zero when there is none within five years.
func (s *schedule) next(t time.Time) time.Time {
	if s.every > 0 {
		return t.Truncate(time.Second).Add(s.every)
	}
	at := t.In(s.zone).Truncate(time.Minute).Add(time.Minute)
	for end := at.AddDate(5, 0, 0); at.Before(end); {
		y, m, d := at.Date()
		switch {
		case s.month&(1<<int(m)) == 0:
			at = time.Date(y, m+1, 1, 0, 0, 0, 0, s.zone)
		case !s.onDay(at):
			at = time.Date(y, m, d+1, 0, 0, 0, 0, s.zone)
		case s.hour&(1<<at.Hour()) == 0:
			at = at.Add(time.Duration(60-at.Minute()) * time.Minute)
		default:
			later := s.minute &^ (1<<at.Minute() - 1)
			if later != 0 {
				return at.Add(time.Duration(bits.TrailingZeros64(later)-at.Minute()) * time.Minute)
			}
			at = at.Add(time.Duration(60-at.Minute()) * time.Minute)
		}
	}
	return time.Time{}
}

// onDay: when both the day of the month and that of the week are restricted, either will do.
func (s *schedule) onDay(t time.Time) bool {
	day, weekday := s.day&(1<<t.Day()) != 0, s.weekday&(1<<int(t.Weekday())) != 0
	if s.anyDay || s.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// latest is the last time of the schedule after `after` and not after now; zero when there is none.
func (s *schedule) latest(after, now time.Time) (at time.Time) {
	if s.every > 0 && now.After(after) {
		if n := now.Sub(after) / s.every; n > 0 {
			return after.Add(n * s.every)
		}
		return at
	}
	// Look back over longer and longer times: a schedule that runs often has a near one.
	for back := time.Minute; ; back *= 2 {
		from := now.Add(-back)
		if from.Before(after) {
			from = after
		}
		for t := s.next(from); !t.IsZero() && !t.After(now); t = s.next(t) {
			at = t
		}
		if !at.IsZero() || !from.After(after) {
			return at
		}
	}
}
