package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// judging are folders whose every test judges what must hold each time: durable data, histories, clusters under faults, attacks.
var judging = []string{"store", "sim", "test/torture", "test/simulation", "test/attack", "test/e2e/servers"}

// judgingName matches the names of tests elsewhere that do. The others say so themselves: t.Attr("retry", "never").
// TestJudges in judge_test.go finds those that forgot.
var judgingName = regexp.MustCompile(`^(Fuzz|Test.*(Linear|Model|Random|Race|Concurren|LoseNothing|Surviv|Seeds|Invariant))`)

func judges(pkg, test string) bool {
	path := short(pkg)
	if path == "" {
		return true // the house rules read files
	}
	for _, dir := range judging {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return judgingName.MatchString(test)
}

// most bounds how many failed tests are run again. More is no accident.
const most = 5

// tests runs packages. A failure that is not final is run once more at the end, alone on the machine; what passes then is written down,
// and a test that is written down already is mended, not run again.
func (j *job) tests(flags []string, packages ...string) error {
	r, err := j.goTest(flags, packages)
	if err != nil {
		return err
	}
	known, err := readFlickers(j.flickers)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.skipped = append(j.skipped, r.skipped...)
	var lost []string
	var later []retry
	for _, f := range r.failures {
		if why := f.verdict(known, j.now(), len(r.failures)); why != "" {
			lost = append(lost, f.told(why))
		} else {
			later = append(later, retry{j, flags, f})
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("%s", strings.Join(lost, ", "))
	}
	j.later = append(j.later, later...)
	return nil
}

// told is a failure in one line: which test, why it is final, and what it said.
func (f failure) told(why string) string {
	line := fmt.Sprintf("%s.%s (%s)", short(f.pkg), f.test, why)
	if f.said != "" {
		line += ": " + f.said
	}
	return line
}

// A retry is a failed test that is run once more, as it was run before.
type retry struct {
	job     *job
	flags   []string
	failure failure
}

// verdict says why a failure is one; empty if it may be tried again.
func (f failure) verdict(known []flicker, now time.Time, failures int) string {
	name := short(f.pkg) + "." + f.test
	switch {
	case f.final != "":
		return f.final
	case failures > most:
		return "one of many"
	case slices.ContainsFunc(known, func(k flicker) bool { return k.test == name && now.Before(k.expires) }):
		return "it failed before: mend it"
	}
	return ""
}

// again tries once more what failed and may have been an accident.
func (j *job) again() error {
	var failed []error
	for _, r := range j.later {
		failed = append(failed, r.run(j.out))
	}
	return errors.Join(failed...)
}

func (r retry) run(out io.Writer) error {
	f, j := r.failure, r.job.in(r.job.dir)
	j.out = out
	name, flags := short(f.pkg)+"."+f.test, append(slices.Clone(r.flags), "-count=1")
	if f.test != "" { // else all tests of a package that did not end
		flags = append(flags, "-run=^"+f.test+"$")
	}
	fmt.Fprintf(out, "once more, alone: %s\n", name)
	report, err := j.goTest(flags, []string{f.pkg})
	if err != nil {
		return err
	}
	if len(report.failures) > 0 {
		return errors.New(report.failures[0].told("failed twice"))
	}
	reason := strings.TrimSuffix("not looked into yet: "+f.said, ": ")
	j.flickered = append(j.flickered, fmt.Sprintf("%s (%s)", name, reason))
	return addFlicker(j.flickers, flicker{name, j.now(), j.now().Add(memory), reason}, j.now())
}

const memory = 30 * 24 * time.Hour // how long a test that failed once is remembered

// A flicker is a test that failed and passed alone: a line of test/ci/flickers.tsv.
type flicker struct {
	test          string
	date, expires time.Time
	reason        string
}

func readFlickers(path string) (list []flicker, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) != 4 || cells[3] == "" {
			return nil, fmt.Errorf("%s: %q is not test, date, expiry and reason, with tabs between", path, line)
		}
		f := flicker{test: cells[0], reason: cells[3]}
		if f.date, err = time.Parse(time.DateOnly, cells[1]); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if f.expires, err = time.Parse(time.DateOnly, cells[2]); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, f)
	}
	return list, nil
}

const flickersHead = `# Tests that failed and passed when they ran alone, on which day, until when that is remembered, and why it was.
# A test that stands
# here and fails again is not tried again: mend it and delete its line. scripts/test adds lines; commit them with the reason.
`

// addFlicker writes a line and leaves out those that have expired.
func addFlicker(path string, f flicker, now time.Time) error {
	list, err := readFlickers(path)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(append(list, f), func(k flicker) bool { return now.After(k.expires) })
	b := strings.Builder{}
	b.WriteString(flickersHead)
	for _, k := range list {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", k.test, k.date.Format(time.DateOnly), k.expires.Format(time.DateOnly), k.reason)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
