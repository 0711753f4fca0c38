package main

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// An expectation is a row of differs.tsv: scenarios that may fail, and why.
type expectation struct {
	place   string // api, full, or apart: full with the loops in a process of their own
	pattern string // area/file or area/file/case; * stands for anything but /
	when    string // always: must fail; sometimes: may
	reason  string
	failed  int // scenarios that it excused
	seen    int // scenarios that it is about
}

// readExpectations reads the rows for a place. Without a file nothing may fail.
func readExpectations(file, place string) (list []*expectation, err error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) != 4 || cells[3] == "" || cells[2] != "always" && cells[2] != "sometimes" {
			return nil, fmt.Errorf("%s: %q is not place, scenario, always or sometimes, and a reason, with tabs between", file, line)
		}
		if e := (&expectation{place: cells[0], pattern: cells[1], when: cells[2], reason: cells[3]}); e.place == place {
			list = append(list, e)
		}
	}
	return list, nil
}

// judge compares the scenarios that failed with those that were expected to, as sets of names, and tells what is not so.
func judge(results []result, expected []*expectation) (complaints []string) {
	for _, res := range results {
		excused := false
		for _, e := range expected {
			ok, _ := path.Match(e.pattern, res.Scenario)
			if !ok {
				continue
			}
			e.seen++
			if !res.Pass {
				e.failed++
				excused = true
			}
		}
		if !res.Pass && !excused {
			complaints = append(complaints, res.Scenario+" fails and differs.tsv does not name it")
		}
	}
	for _, e := range expected {
		if e.when == "always" && e.failed < e.seen {
			complaints = append(complaints, fmt.Sprintf("%s: %d of %d pass although differs.tsv says that they differ (%s): delete the row",
				e.pattern, e.seen-e.failed, e.seen, e.reason))
		}
	}
	return complaints
}
