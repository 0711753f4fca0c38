package batch

import (
	_ "embed"
	"strings"
	"testing"
	"time"
)

//go:embed testdata/zones.txt
var zones string

// around are the times to look from: before and after every change of the zone's clocks within some years.
func around(zone *time.Location, from, to int) (times []time.Time) {
	t := time.Date(from, 1, 1, 0, 0, 0, 0, zone)
	for t.Year() < to {
		_, end := t.ZoneBounds()
		if end.IsZero() {
			end = t.AddDate(1, 0, 0)
		}
		for _, d := range []time.Duration{-40 * 24 * time.Hour, -7 * 24 * time.Hour, -24 * time.Hour, -90 * time.Minute, -time.Second, 0,
			time.Hour} {
			times = append(times, end.Add(d))
		}
		t = end
	}
	return times
}

// A schedule moves on in every zone, also where a day has no midnight or is not there at all. One that does not would
// spin the loop that asks for it: the test would never end.
func TestScheduleMovesOnInEveryZone(t *testing.T) {
	schedules := []string{"0 12 * * mon", "0 0 1 * *", "15 3 * * sun", "0 12 15 3 *", "0 9 18 9 *", "0 0 * * *", "30 0 31 * *", "* * 29 2 *",
		"59 23 31 12 *", "30 2 * 3,10 sun", "*/7 */5 */11 */5 *", "0 0 30 2 *", ", * * * *", "* * , , *", "@every 36h", "@weekly"}
	for _, name := range strings.Fields(zones) {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		times := append(around(zone, 1970, 1973), around(zone, 2008, 2013)...) // Samoa left a day out in 2011
		times = append(times, around(zone, 2025, 2028)...)
		for _, text := range schedules {
			s, err := ParseSchedule(text, zone)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			for _, from := range times {
				if next := s.Next(from); !next.IsZero() && !next.After(from) {
					t.Errorf("%s: %q after %s is %s", name, text, from, next)
				}
			}
		}
	}
}

func TestParseSchedule(t *testing.T) {
	for _, bad := range []string{"", "* * * *", "60 * * * *", "*/0 * * * *", "x * * * *", "TZ=UTC", "CRON_TZ=0", "TZ=/etc/passwd * * * * *",
		"TZ=../x * * * * *", "@never", "@every", "@every x", "* * * * 7", "5-1 * * * *", "1-2-3 * * * *", "-1 * * * *", "* * * * * *"} {
		if _, err := ParseSchedule(bad, time.UTC); err == nil {
			t.Errorf("%q is a schedule", bad)
		}
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add("TZ=America/Havana 0 12 15 3 *", int64(1772323200), 20)
	f.Add("*/5 0-3,7 1 jan-mar/2 sun", int64(0), 0)
	f.Add("@every 1h", int64(-62135596800), 400)
	f.Fuzz(func(t *testing.T, text string, from int64, zone int) {
		names := strings.Fields(zones)
		loc, err := time.LoadLocation(names[uint(zone)%uint(len(names))])
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseSchedule(text, loc)
		if err != nil {
			return
		}
		at := time.Unix(from%(1<<37), 0)
		if next := s.Next(at); !next.IsZero() && !next.After(at) {
			t.Errorf("%q after %s is %s", text, at, next)
		}
	})
}
