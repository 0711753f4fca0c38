package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// A session is one run of the checks.
type session struct {
	flickers string // the file of tests that failed once and passed alone
	now      func() time.Time
	began    time.Time
	out      io.Writer

	mu        sync.Mutex // of what follows, and of out: two steps run at the same time
	times     []took
	flickered []string
	skipped   []string
	later     []retry
}

type took struct {
	name string
	time time.Duration
	cpu  time.Duration // of all processors, by programs that ended: servers that a test leaves to the end are not in it
	err  error
	last bool // nothing goes on after it
}

// beside runs the steps of several kinds, those of one kind one after the other. It reports whether the rest can go on.
func (s *session) beside(chosen []step, kinds ...kind) bool {
	var lanes sync.WaitGroup
	ok := make([]bool, len(kinds))
	for i, k := range kinds {
		lanes.Go(func() { ok[i] = s.lane(chosen, k) })
	}
	lanes.Wait()
	for _, o := range ok {
		if !o {
			return false
		}
	}
	return true
}

// lane runs the steps of a kind, and no more of them after one that the others need.
func (s *session) lane(chosen []step, k kind) bool {
	for _, step := range chosen {
		if step.kind == k && !s.do(step) && step.first {
			return false
		}
	}
	return true
}

// do runs a step and remembers how long it took.
func (s *session) do(step step) bool {
	out := &tagged{to: s.out, mu: &s.mu, tag: step.name + ": "}
	fmt.Fprintln(out, "begins")
	start := s.now()
	var cpu time.Duration
	err := step.run(&job{session: s, out: out, dir: ".", cpu: &cpu})
	out.end()
	if err != nil {
		fmt.Fprintf(out, "failed: %v\n", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, took{step.name, s.now().Sub(start), cpu, err, err != nil && step.first})
	return err == nil
}

// summary is the end of the output: the skipped tests, the times, and in the last line the tests that failed once.
func (s *session) summary() string {
	var b strings.Builder
	b.WriteString("\n")
	if len(s.skipped) > 0 {
		fmt.Fprintf(&b, "skipped: %s\n\n", strings.Join(s.skipped, " "))
	}
	row := func(name string, time, cpu time.Duration, mark string) {
		fmt.Fprintf(&b, "%-12s %6.0f s %7.0f s of processor%s\n", name, time.Seconds(), cpu.Seconds(), mark)
	}
	var cpu time.Duration
	for _, t := range s.times {
		mark := ""
		if t.err != nil {
			mark = "  FAILED: " + strings.ReplaceAll(fmt.Sprintf("%.1500v", t.err), "\n", "; ")
		}
		row(t.name, t.time, t.cpu, mark)
		cpu += t.cpu
	}
	row("together", s.now().Sub(s.began), cpu, "")
	if len(s.flickered) > 0 {
		fmt.Fprintf(&b, "failed once and passed alone, written to %s: %s\n", s.flickers, strings.Join(s.flickered, " "))
	}
	return b.String()
}

// A tagged writer begins every line with the name of the step that says it, and writes whole lines: two steps speak at the same time.
type tagged struct {
	tag  string
	mu   *sync.Mutex
	to   io.Writer
	line []byte // which has not ended
}

func (w *tagged) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line = append(w.line, p...)
	for {
		i := bytes.IndexByte(w.line, '\n')
		if i < 0 {
			return len(p), nil
		}
		if _, err := fmt.Fprintf(w.to, "%s%s", w.tag, w.line[:i+1]); err != nil {
			return 0, err
		}
		w.line = w.line[i+1:]
	}
}

// end writes a last line that was not ended.
func (w *tagged) end() {
	if len(w.line) > 0 {
		fmt.Fprintln(w)
	}
}
