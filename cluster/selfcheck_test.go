package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/store/member"
)

// Certificates are told of when they should have been exchanged, the one that ends first before the others.
func TestEnding(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	of := func(what string, age, left time.Duration) Cert { return Cert{what, now.Add(-age), now.Add(left)} }
	for _, tt := range []struct {
		name string
		list []Cert
		want string
	}{
		{"new", []Cert{of("a", 0, 365*day)}, ""},
		{"a year, a month left", []Cert{of("a", 334*day, 31*day)}, ""},
		{"a year, less", []Cert{of("a", 336*day, 29*day)}, "a"},
		{"ten years, two months left", []Cert{of("a", 3590*day, 60*day)}, ""},
		{"a week, a day left", []Cert{of("a", 6*day, day)}, ""},
		{"a week, half a day left", []Cert{of("a", 6*day+12*time.Hour, 12*time.Hour)}, "a"},
		{"ended", []Cert{of("a", 10*day, 9*day), of("b", 350*day, 15*day), of("c", 366*day, -day)}, "c b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			for i, e := range ending(tt.list, now) {
				if i > 0 {
					got += " "
				}
				got += e.What
				if e.Since.After(now) {
					t.Errorf("%s should be another one only at %s", e.What, e.Since)
				}
			}
			if got != tt.want {
				t.Errorf("%q end, want %q", got, tt.want)
			}
		})
	}
}

// A member is told of when it is silent twice in a row, with the time of the first.
func TestSilent(t *testing.T) {
	s, now := &selfCheck{}, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	one, two := member.Peer{ID: 1, Name: "one", URL: "https://1"}, member.Peer{ID: 2, URL: "https://2"}
	for i, tt := range []struct {
		name string
		now  []member.Peer
		want string
	}{
		{"silent once", []member.Peer{one}, "[]"},
		{"a second one once", []member.Peer{two, one}, "[one 0s]"},
		{"both twice", []member.Peer{one, two}, "[one 0s without a name 1m0s]"},
		{"all answer", nil, "[]"},
		{"silent once more", []member.Peer{one}, "[]"},
		{"silent twice since then", []member.Peer{one}, "[one 4m0s]"},
	} {
		var got []string
		for _, m := range s.hear(tt.now, now.Add(time.Duration(i)*time.Minute)) {
			got = append(got, m.Name+" "+m.Since.Sub(now).String())
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s: look %d: %s, want %s", tt.name, i, got, tt.want)
		}
	}
}

// A store is slow when the writes of a minute took a second each and were some, and no longer when they did not.
func TestSlowness(t *testing.T) {
	for _, tt := range []struct {
		name           string
		writes         int64         // at each look
		took           time.Duration // each
		looks, silence int           // with such writes, and without any after them
		want           string
	}{
		{"quick", 100, 2 * time.Millisecond, 13, 0, ""},
		{"just below", 2, 999 * time.Millisecond, 13, 0, ""},
		{"slow", 2, 1400 * time.Millisecond, 13, 0, "1.4s for a write, the mean of 24 since 40s"},
		{"too few", 1, 20 * time.Second, 9, 0, ""},
		{"slow a while ago", 5, 2 * time.Second, 5, 12, ""},
		{"slow lately", 5, 2 * time.Second, 13, 9, "2s for a write, the mean of 15 since 1m40s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, now, p, got := &selfCheck{}, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), written{}, ""
			for i := range tt.looks + tt.silence {
				if i < tt.looks {
					p.writes, p.took = p.writes+tt.writes, p.took+time.Duration(tt.writes)*tt.took
				}
				got = s.slowness(p, now)
				now = now.Add(checkEvery)
			}
			if got != "" {
				got += fmt.Sprint(" since ", now.Sub(s.slow))
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
