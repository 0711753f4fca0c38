// Command ci runs the checks of this repository, step by step, and prints how long each took. A test that fails is run once more
// by its name alone, and written down if it passes then; what judges an invariant, a history, data or a race is never run again.
// See retry.go for the rule.
//
//	ci           everything
//	ci check     what one runs all day: the build, the linters' fast half, the tests that take seconds
//	ci STEP...   these steps
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the steps that are asked for. A step that fails does not stop the ones after it, unless they need what it makes. What makes
// is run beside what fetches; then what keeps the processor busy beside the clusters and what sleeps, which wait most of the time;
// then the guests, with what takes only time that they leave. What failed and may have been an accident is tried again at the end, alone
// on the machine.
func run(names []string) error {
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	s := &session{flickers: "test/ci/flickers.tsv", now: time.Now, began: time.Now(), out: os.Stdout}
	if s.beside(chosen, makes, fetches) && s.beside(chosen, works, waits, sleeps) && s.beside(chosen, alone, idles) && len(s.later) > 0 {
		s.do(step{name: "again", run: (*job).again})
	}
	fmt.Print(s.summary())
	var failed []string
	for _, t := range s.times {
		if t.err != nil {
			failed = append(failed, t.name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// choose returns the steps with the names or in the lanes that are given, in the order of the table.
func choose(names []string) (chosen []step, err error) {
	if len(names) == 0 {
		names = []string{"all"}
	}
	for _, name := range names {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.name == name || slices.Contains(s.lanes, name) }) {
			return nil, fmt.Errorf("there is no step %q; there are %s", name, stepNames())
		}
	}
	for _, s := range steps {
		if slices.ContainsFunc(names, func(name string) bool { return s.name == name || slices.Contains(s.lanes, name) }) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

func stepNames() string {
	var names []string
	for _, s := range steps {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}
