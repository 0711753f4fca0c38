package past

import (
	"fmt"
	"time"
)

// When reads a time that is over: 10m (ago), 14:05 or 14:05:30 (the last one), 2006-01-02 15:04, or RFC 3339. Where no zone is said,
// it is that of now.
func When(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			if t.After(now) {
				return t, fmt.Errorf("%s is not over yet", text)
			}
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		c, err := time.ParseInLocation(layout, text, now.Location())
		if err != nil {
			continue
		}
		t := time.Date(now.Year(), now.Month(), now.Day(), c.Hour(), c.Minute(), c.Second(), 0, now.Location())
		if t.After(now) {
			t = t.AddDate(0, 0, -1)
		}
		return t, nil
	}
	return now, fmt.Errorf("%q is no time: say 10m (ago), 14:05 or %s", text, now.Format(time.RFC3339))
}
