package batch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A cronField is one of the five fields of a schedule.
type cronField struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

var cronFields = []cronField{
	{name: "minute", min: 0, max: 59},
	{name: "hour", min: 0, max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep",
		"oct", "nov", "dec"}},
	{name: "day of week", min: 0, max: 6, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var cronWords = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// checkSchedule tells what is wrong with a cron expression.
func checkSchedule(s string) error {
	if strings.HasPrefix(s, "TZ=") || strings.HasPrefix(s, "CRON_TZ=") {
		_, rest, ok := strings.Cut(s, " ")
		if !ok {
			return errors.New("a schedule is missing after the time zone")
		}
		s = strings.TrimSpace(rest)
	}
	if strings.HasPrefix(s, "@") {
		return checkWord(s)
	}
	parts := strings.Fields(s)
	if len(parts) != len(cronFields) {
		return fmt.Errorf("expected exactly %d fields, found %d: %q", len(cronFields), len(parts), s)
	}
	for i, f := range cronFields {
		for _, item := range strings.FieldsFunc(parts[i], func(r rune) bool { return r == ',' }) {
			if err := f.check(item); err != nil {
				return fmt.Errorf("%s %q: %w", f.name, item, err)
			}
		}
	}
	return nil
}

func checkWord(s string) error {
	if every, ok := strings.CutPrefix(s, "@every "); ok {
		_, err := time.ParseDuration(every)
		return err
	}
	if !slices.Contains(cronWords, s) {
		return fmt.Errorf("unrecognized descriptor: %s", s)
	}
	return nil
}

// check judges one item of a list: *, a value, a range, each with an optional step.
func (f cronField) check(item string) error {
	span, step, stepped := strings.Cut(item, "/")
	if stepped {
		if n, err := strconv.Atoi(step); err != nil || n <= 0 {
			return fmt.Errorf("step %q must be a positive number", step)
		}
	}
	low, high, ranged := strings.Cut(span, "-")
	if low == "*" || low == "?" {
		if ranged {
			return errors.New("a range needs a start")
		}
		return nil
	}
	from, err := f.value(low)
	if err != nil || !ranged {
		return err
	}
	to, err := f.value(high)
	if err == nil && from > to {
		err = fmt.Errorf("beginning of range (%d) beyond end of range (%d)", from, to)
	}
	return err
}

func (f cronField) value(s string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(s)); i >= 0 {
		return f.min + i, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("failed to parse %q as a number", s)
	}
	if n < f.min || n > f.max {
		return 0, fmt.Errorf("%d is not between %d and %d", n, f.min, f.max)
	}
	return n, nil
}
