package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func newSession(t *testing.T) (*session, *strings.Builder) {
	out := &strings.Builder{}
	flickers := filepath.Join(t.TempDir(), "flickers.tsv")
	if err := os.WriteFile(flickers, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return &session{flickers: flickers, now: time.Now, began: time.Now(), out: out}, out
}

// TestBeside: steps of two kinds run at the same time, those of one kind one after the other, and what they say can be told apart.
func TestBeside(t *testing.T) {
	s, out := newSession(t)
	met := make(chan string)
	ok := s.beside([]step{
		{name: "race", kind: works, run: func(j *job) error { fmt.Fprint(j.out, "ok"); met <- "race"; return errors.New("lost") }},
		{name: "oracle", kind: waits, run: func(j *job) error { fmt.Fprintln(j.out, "with "+<-met); return nil }},
		{name: "lint", kind: works, run: func(*job) error { return nil }},
		{name: "build", kind: makes, run: func(*job) error { t.Error("a step of another kind runs"); return nil }},
	}, works, waits)
	if !ok {
		t.Error("a step that nothing needs stops the rest")
	}
	var times []string
	for _, took := range s.times {
		times = append(times, fmt.Sprint(took.name, " ", took.err))
	}
	slices.Sort(times)
	if want := []string{"lint <nil>", "oracle <nil>", "race lost"}; !slices.Equal(times, want) {
		t.Errorf("ran %q, want %q", times, want)
	}
	for _, line := range []string{"race: ok", "race: failed: lost", "oracle: with race", "lint: begins"} {
		if !slices.Contains(strings.Split(out.String(), "\n"), line) {
			t.Errorf("no line %q in\n%s", line, out)
		}
	}
}

// TestIdle: what an idle job runs has the lowest priority, and so has what that runs; other jobs have their own.
func TestIdle(t *testing.T) {
	if err := exec.Command("chrt", "--idle", "0", "true").Run(); err != nil {
		t.Skip("the system lets no program have the lowest priority:", err)
	}
	s, _ := newSession(t)
	for name, want := range map[string]bool{"idle": true, "other": false} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			var cpu time.Duration
			j := &job{session: s, out: &out, dir: ".", cpu: &cpu}
			if want {
				j = j.idle()
			}
			if err := j.script("sh", "-c", "sh -c 'chrt -p $$'"); err != nil || strings.Contains(out.String(), "SCHED_IDLE") != want {
				t.Errorf("%v, idle: want %v\n%s", err, want, &out)
			}
		})
	}
}

// TestNeeded: nothing goes on after a step that the others need.
func TestNeeded(t *testing.T) {
	s, _ := newSession(t)
	fail := func(*job) error { return errors.New("no compiler") }
	list := []step{{name: "build", kind: makes, first: true, run: fail}, {name: "kubectl", kind: makes, run: fail}}
	if s.beside(list, makes, fetches) || len(s.times) != 1 {
		t.Errorf("goes on: %v", s.times)
	}
}

// TestSplit: every package with tests runs once, under the race detector or without; twice only if it does less there.
func TestSplit(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plain.go": "package x\nfunc f() {}", "go.go": "package x\nfunc g() { go f() }", "group.go": "package x\nfunc h() { group.Go(f) }",
		"x_test.go": "package x\nfunc TestX() { f() }", "short_test.go": "package x\nfunc TestS() { _ = testing.Short() }",
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, tt := range []struct{ path, file, test, want string }{
		{"kinds", "plain.go", "x_test.go", "plain"},
		{"loop", "go.go", "x_test.go", "whole"},
		{"proxy", "group.go", "x_test.go", "whole"},
		{"simtest", "go.go", "short_test.go", "plain part"},
		{"kinds/core", "plain.go", "short_test.go", "plain"},
		{"controllers", "plain.go", "x_test.go", "whole"},  // in the table raced
		{"test/simulation", "go.go", "x_test.go", "plain"}, // in the table unraced
		{"view", "go.go", "", ""},
	} {
		t.Run(tt.path, func(t *testing.T) {
			p := goPackage{ImportPath: module + "/" + tt.path, Dir: dir, GoFiles: []string{tt.file}}
			if tt.test != "" {
				p.XTestGoFiles = []string{tt.test}
			}
			plain, whole, part, err := split([]goPackage{p})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, list := range [][]string{plain, whole, part} {
				if len(list) > 0 {
					got = append(got, []string{"plain", "whole", "part"}[i])
				}
			}
			if have := strings.Join(got, " "); have != tt.want {
				t.Errorf("%s: runs %s, want %s", tt.path, have, tt.want)
			}
		})
	}
}

// TestAgain: a test that fails once and then passes is tried at the end of the run, and written down; one that fails twice is a failure.
func TestAgain(t *testing.T) {
	s, out := newSession(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module " + module + "/again\n",
		"x_test.go": "package x\nimport (\"os\"; \"testing\")\n" +
			"func TestOnce(t *testing.T) { if os.Mkdir(os.Getenv(\"SEEN\"), 0o700) == nil { t.Fatal(\"the first time\") } }\n" +
			"func TestEach(t *testing.T) { t.Fatal(\"each time\") }\n",
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	var cpu time.Duration
	j := (&job{session: s, out: out, cpu: &cpu}).in(dir, "SEEN="+filepath.Join(dir, "seen"))
	if err := j.tests(quiet, "."); err != nil || len(s.later) != 2 {
		t.Fatalf("%v, to be tried again %v\n%s", err, s.later, out)
	}
	if cpu == 0 {
		t.Error("compiling and running tests took no time of a processor")
	}
	if err := j.again(); err == nil || err.Error() != "again.TestEach (failed twice): x_test.go:4: each time" {
		t.Errorf("%v, want that TestEach failed twice\n%s", err, out)
	}
	if known, err := readFlickers(s.flickers); err != nil || len(known) != 1 || known[0].test != "again.TestOnce" {
		t.Errorf("written down: %v %v", known, err)
	}
}
