package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestJudge(t *testing.T) {
	row := func(pattern, when string) *expectation {
		return &expectation{pattern: pattern, when: when, reason: "known"}
	}
	for _, tt := range []struct {
		name     string
		results  []result
		expected []*expectation
		want     int
	}{
		{"all pass", []result{{Scenario: "list/a", Pass: true}}, nil, 0},
		{"a failure", []result{{Scenario: "list/a"}}, nil, 1},
		{"a failure that is known", []result{{Scenario: "list/a"}}, []*expectation{row("list/a", "always")}, 0},
		{"cases of a file", []result{{Scenario: "list/a/one"}, {Scenario: "list/a/two"}}, []*expectation{row("list/a/*", "always")}, 0},
		{"mended, and the row is left", []result{{Scenario: "list/a", Pass: true}}, []*expectation{row("list/a", "always")}, 1},
		{"sometimes passes", []result{{Scenario: "list/a", Pass: true}}, []*expectation{row("list/a", "sometimes")}, 0},
		{"was not played", []result{{Scenario: "list/a", Pass: true}}, []*expectation{row("watch/a", "always")}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := judge(tt.results, tt.expected); len(got) != tt.want {
				t.Errorf("complaints %q, want %d", got, tt.want)
			}
		})
	}
}

// TestRowsNameScenarios finds rows about scenarios that are not there.
func TestRowsNameScenarios(t *testing.T) {
	for place, profile := range map[string]string{"api": "api", "full": "full", "apart": "full"} {
		t.Run(place, func(t *testing.T) {
			rows, err := readExpectations("differs.tsv", place)
			if err != nil {
				t.Fatal(err)
			}
			corpus, err := loadScenarios("scenarios")
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				if !slices.ContainsFunc(corpus.Scenarios, func(s *Scenario) bool {
					ok, _ := filepath.Match(row.pattern, s.ID())
					return ok && s.profile() == profile
				}) {
					t.Errorf("%s: no scenario is called %s", place, row.pattern)
				}
			}
		})
	}
}

func TestRowsWithoutReason(t *testing.T) {
	file := filepath.Join(t.TempDir(), "differs.tsv")
	if err := os.WriteFile(file, []byte("api\tlist/a\talways\t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readExpectations(file, "api"); err == nil {
		t.Error("a row without a reason was taken")
	}
}
